"""Many machines: each is a process with a cache and a target of its own, forked when all is loaded.

Says ``ready`` and waits for a line on stdin; then prints one JSON object a client. Commands
would measure the start of Python a hundred times, threads how they wait for one interpreter.
"""

import argparse
import gc
import json
import shutil
import sys
import time
from collections.abc import Callable
from functools import partial
from multiprocessing import get_context
from multiprocessing.synchronize import Event, Semaphore
from pathlib import Path

from benchmarks.clients import raw

READY_S = 30


def get(model_id: str, version: str, folder: Path) -> int:
    """Get a version as ``ai-model get`` does and return the bytes that were fetched."""
    from ai_model import Registry

    with Registry(cache_dir=folder / "cache") as registry:
        return registry.get(model_id, version, output=folder / "out").bytes_fetched


def get_raw(url: str, size: int, folder: Path) -> int:
    """Fetch an object over raw sockets, hashed."""
    folder.mkdir(parents=True)
    raw.main(url, size, str(folder / "out"))
    return size


def timed(
    client: Callable[[Path], int], folder: Path, go: Event, turns: Semaphore, ready: Semaphore
) -> None:
    """Run one client and print what came of it."""
    gc.unfreeze()
    gc.collect()  # copies the pages that the fork left shared, as a process of its own has them
    ready.release()
    go.wait()
    with turns:
        _timed(client, folder)


def _timed(client: Callable[[Path], int], folder: Path) -> None:
    began = time.monotonic()
    said: dict[str, object] = {"error": "", "bytes_fetched": 0}
    try:
        said["bytes_fetched"] = client(folder)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a failed client is a result
        said["error"] = f"{type(error).__name__}: {error}"
    ended = time.monotonic()
    print(json.dumps({**said, "seconds": ended - began, "ended_at": ended}), flush=True)
    shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Run the clients."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--model-id")
    parser.add_argument("--version")
    parser.add_argument("--url", help="fetch this over raw sockets instead")
    parser.add_argument("--size", type=int)
    parser.add_argument(
        "--at-once", type=int, help="how many clients run at once; all if not given"
    )
    asked = parser.parse_args()
    if asked.url:
        client = partial(get_raw, asked.url, asked.size)
    else:
        import ctypes  # noqa: F401 - what a process of its own would have loaded
        import encodings.idna  # noqa: F401

        import ai_model.get.run  # noqa: F401

        client = partial(get, asked.model_id, asked.version)
    fork = get_context("fork")
    go, turns = fork.Event(), fork.Semaphore(asked.at_once or asked.clients)
    ready = fork.Semaphore(0)
    machines = [
        fork.Process(target=timed, args=(client, asked.folder / str(number), go, turns, ready))
        for number in range(asked.clients)
    ]
    gc.freeze()
    for machine in machines:
        machine.start()
    for _ in machines:
        ready.acquire(timeout=READY_S)  # one that died is counted as a client that said nothing
    print("ready", flush=True)
    sys.stdin.readline()
    go.set()
    for machine in machines:
        machine.join()


if __name__ == "__main__":
    main()
