"""Push a real trained model, get only its encoder back, verified: ``make quickstart``.

Everything runs on this machine and in a folder of its own that is removed at
the end: a registry with its Postgres, and the same commands that you would type.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors.numpy import load_file

from tests.real_files_catalog import DownloadFailed, fetch

ROOT = Path(__file__).parents[1]
COMMAND = Path(sys.executable).with_name("ai-model")
STOP_TIMEOUT_S = 60

WHAT_NEXT = """
Now with a model of yours. Keep a registry running:

  {command} serve --data-dir ./registry

and in another terminal:

  export AI_MODEL_CONFIG=./registry/client.toml
  {command} push PATH --model-id my-model --version v1
  {command} layers --model-id my-model
  {command} get --model-id my-model --version v1 --layers LAYER --output ./part
"""


def main() -> int:
    """Run it all and return the exit code."""
    try:
        weights = fetch("minilm", ROOT / ".cache" / "weights")
    except DownloadFailed as error:
        reason = str(error).splitlines()[-1]
        print(f"The model could not be downloaded; is there a network? ({reason})", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="ai-model-quickstart-") as name:
        folder = Path(name)
        shutil.copyfile(weights, folder / "model.safetensors")
        with serving(folder) as environment:
            show(folder, environment)
    command = os.path.relpath(COMMAND, Path.cwd())
    print(WHAT_NEXT.format(command=command))
    return 0


@contextmanager
def serving(folder: Path) -> Iterator[dict[str, str]]:
    """Run a registry below ``folder``; yield the environment of its client."""
    say("A registry starts on this machine: the API, a real Postgres, objects in a folder.")
    arguments = ["serve", "--data-dir", "registry", "--port", "0", "--json"]
    print_command(arguments)
    with (folder / "serve.log").open("w") as log:
        server = subprocess.Popen(
            [COMMAND, *arguments], cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True
        )
    try:
        print(f"ready at {endpoint_of(server, folder / 'serve.log')}\n", flush=True)
        kept = {key: text for key, text in os.environ.items() if not key.startswith("AI_MODEL_")}
        yield {**kept, "AI_MODEL_CONFIG": str(folder / "registry" / "client.toml")}
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(STOP_TIMEOUT_S)


def endpoint_of(server: subprocess.Popen[str], log: Path) -> str:
    """Wait until the registry says where it is."""
    ready = server.stdout.readline() if server.stdout else ""
    try:
        return str(json.loads(ready)["endpoint"])
    except ValueError:
        server.wait(STOP_TIMEOUT_S)
        raise SystemExit(f"The registry did not start: {log.read_text()}") from None


def show(folder: Path, environment: dict[str, str]) -> None:
    """Push, look, get the encoder, verify, load."""

    def run(machine: str, *arguments: str) -> None:
        print_command(arguments)
        # A cache of its own stands for another machine, which holds none of the bytes yet.
        here = {**environment, "AI_MODEL_CACHE": str(folder / machine)}
        subprocess.run([COMMAND, *arguments], cwd=folder, env=here, check=True)
        print(flush=True)

    say("Push a real model, all-MiniLM-L6-v2, as it stands on disk.")
    model = ("--model-id", "minilm", "--version", "v1")
    run("trainer", "push", "model.safetensors", *model, "--alias", "production")
    say("What is in it?")
    run("trainer", "layers", *model, "--depth", "2")
    say("Another machine needs only the encoder. Only its bytes travel.")
    production = ("--model-id", "minilm", "--version", "production")
    run("server", "get", *production, "--layers", "encoder", "--output", "encoder")
    say("Is what lies there what the registry holds? Every byte is hashed again.")
    run("server", "verify", "encoder")
    compare(folder / "model.safetensors", folder / "encoder" / "model.safetensors")


def compare(original: Path, part: Path) -> None:
    """Load both files with safetensors and compare them tensor by tensor."""
    whole, got = load_file(original), load_file(part)
    different = [name for name in got if whole[name].tobytes() != got[name].tobytes()]
    if different or not got:
        raise SystemExit(f"These tensors are not those of the original: {different}")
    say(
        f"safetensors loads the part as a file of its own: {len(got)} of {len(whole)} tensors,"
        f" {part.stat().st_size:,} of {original.stat().st_size:,} bytes,"
        " each equal to the original."
    )


def say(sentence: str) -> None:
    """Print a sentence that explains."""
    print(f"# {sentence}", flush=True)


def print_command(arguments: tuple[str, ...] | list[str]) -> None:
    """Print a command as a person would type it."""
    print(f"$ ai-model {' '.join(arguments)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
