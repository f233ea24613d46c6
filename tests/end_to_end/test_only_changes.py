"""What a version costs to send, to keep and to get beside the one before: only what is new."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
import torch

from ai_model import PushResult, Registry
from ai_model_cli.commands.push import _lines as push_lines
from ai_model_cli.commands.show import _lines as show_lines
from tests.end_to_end.random_models import Model, Weights
from tests.services.registry import RegistryServer

KIB = 1024
LAYERS = 20


def weights(random: Random) -> dict[str, torch.Tensor]:
    """Twenty layers of 256 KiB, and a bias each."""
    found = {}
    for layer in range(LAYERS):
        for name, count in (("weight", 64 * KIB), ("bias", 64)):
            data = bytearray(random.randbytes(4 * count))
            found[f"encoder.layer.{layer}.{name}"] = torch.frombuffer(data, dtype=torch.float32)
    return found


@dataclass
class Setting:
    """A registry that holds v1, and v1 at hand on this machine."""

    server: RegistryServer
    random: Random
    model: Model
    client: Registry
    other: Callable[[], Registry]
    model_id: str
    folder: Path

    def push(self, version: str) -> tuple[PushResult, int]:
        """Push the model as it is now; also return how much larger the store is by it."""
        self.model.write(self.folder / version)
        before = self.server.bytes_stored()
        pushed = self.client.push(self.folder / version, self.model_id, version)
        return pushed, self.server.bytes_stored() - before

    def new_bytes(self) -> int:
        """Return the size of the chunks that v2 has and v1 has not."""
        v1, v2 = (self.client.open(self.model_id, version).manifest for version in ("v1", "v2"))
        held = {chunk.digest for file in v1.files for chunk in file.chunks}
        new = {c.digest: c.size for file in v2.files for c in file.chunks if c.digest not in held}
        return sum(new.values())

    def check(self, *, changed: int, twice: int = 0) -> None:
        """Push v2 and get it; the cost of each is that of ``changed`` bytes of weights.

        ``twice`` bytes stand in v2 a second time.
        """
        pushed, grown = self.push("v2")
        new = self.new_bytes()
        version = self.client.open(self.model_id, "v2")
        manifest = len(self.client.api.manifest(self.model_id, "v2"))
        structure = sum(part.size for file in version.files for part in file.structure)
        assert changed <= new <= changed + structure + 64 * KIB
        assert new <= pushed.bytes_sent <= changed * 1.02 + structure + manifest
        assert grown == version.info.stored_bytes == pushed.bytes_sent + manifest
        assert pushed.bytes_not_sent == pushed.bytes_total - pushed.bytes_sent
        assert pushed.bytes_already_there == pushed.bytes_not_sent - twice
        output = self.folder / "out-v2"
        got = self.client.get(self.model_id, "v2", output=output)
        assert new <= got.bytes_fetched <= changed * 1.02 + 64 * KIB
        assert twice or got.bytes_reused == got.bytes_selected - new
        for path in (self.folder / "v2").iterdir():
            assert (output / path.name).read_bytes() == path.read_bytes()


@pytest.fixture
def setting(any_registry, new_client, model_id, tmp_path) -> Setting:
    random = Random(model_id)
    tensors = weights(random)
    model = Model(tensors, files={"model": Weights("safetensors", list(tensors))})
    model.plain["vocabulary.txt"] = random.randbytes(100_000)
    make = lambda: new_client(any_registry)  # noqa: E731
    made = Setting(any_registry, random, model, make(), make, model_id, tmp_path)
    made.push("v1")
    made.client.get(model_id, "v1", output=tmp_path / "out-v1")
    return made


def test_a_fine_tune_costs_the_layers_it_changed(setting):
    for layer in (3, 11):
        data = bytearray(setting.random.randbytes(256 * KIB))
        tuned = torch.frombuffer(data, dtype=torch.float32)
        setting.model.tensors[f"encoder.layer.{layer}.weight"] = tuned
    setting.check(changed=2 * 256 * KIB)


def test_sharding_anew_costs_headers(setting):
    names = list(setting.model.tensors)
    setting.model.files = {
        f"model-{at + 1:05}-of-00003": Weights("safetensors", names[at::3]) for at in range(3)
    }
    setting.model.sharded = True
    setting.check(changed=0)


def test_a_tensor_in_another_file_costs_headers(setting):
    names = setting.model.files["model"].names
    setting.model.files["head"] = Weights("safetensors", [names.pop(6), names.pop(20)])
    setting.check(changed=0)


def test_another_order_costs_a_header(setting):
    setting.random.shuffle(setting.model.files["model"].names)
    setting.check(changed=0)


def test_the_file_it_was_converted_from_costs_the_frame_of_the_zip(setting):
    names = list(setting.model.files["model"].names)
    setting.model.files["pytorch_model"] = Weights("torch", names)
    setting.check(changed=0)


def test_a_whole_file_of_other_name_costs_nothing(setting):
    setting.model.plain["copy/of vocabulary.txt"] = setting.model.plain.pop("vocabulary.txt")
    pushed, grown = setting.push("v2")
    assert pushed.bytes_sent == 0
    assert grown == len(setting.client.api.manifest(setting.model_id, "v2"))
    got = setting.client.get(setting.model_id, "v2", output=setting.folder / "out-v2")
    assert (got.bytes_fetched, got.bytes_reused) == (0, got.bytes_selected)


def test_a_tensor_twice_in_a_first_push_is_sent_once(setting):
    model = setting.model
    for name in model.tensors:
        data = bytearray(setting.random.randbytes(4 * model.tensors[name].numel()))
        model.tensors[name] = torch.frombuffer(data, dtype=torch.float32)
    model.files["pytorch_model"] = Weights("torch", list(model.tensors))
    size = sum(tensor.nbytes for tensor in model.tensors.values())
    setting.check(changed=size, twice=size)


def test_push_and_show_say_what_it_cost(setting):
    data = bytearray(setting.random.randbytes(256 * KIB))
    setting.model.tensors["encoder.layer.3.weight"] = torch.frombuffer(data, dtype=torch.float32)
    pushed, grown = setting.push("v2")
    said = "\n".join(push_lines(pushed, None))
    assert "Sent 26" in said
    assert "the registry held 5.1 MB already" in said
    shown = "\n".join(show_lines(setting.client.open(setting.model_id, "v2").info))
    assert f"{grown / 1000:.1f} kB were stored for it" in shown


def test_who_may_not_read_a_model_sends_what_it_shares_with_it(setting):
    """Knowing digests is no right to bytes: a stranger has to send them all."""
    stranger = setting.client.create_token("stranger", role="writer", models=["strange/*"])
    cache = setting.folder / "strange"
    with Registry(setting.server.endpoint, stranger.token, cache_dir=cache) as client:
        pushed = client.push(setting.folder / "v1", f"strange/{setting.model_id}", "v1")
        assert pushed.bytes_sent == pushed.bytes_total
        assert pushed.bytes_already_there == 0
        again = client.push(setting.folder / "v1", f"strange/{setting.model_id}", "v2")
    assert again.bytes_sent == 0
