"""Each verb once, typed at a real registry."""

import json
import stat
import subprocess
import tomllib
from pathlib import Path

import pytest
from safetensors.numpy import load_file

LAYER_BYTES = 64 * 64 * 4


@pytest.fixture
def pushed(shell, weights, request) -> tuple[str, ...]:
    """Options that name a version which this test has pushed."""
    name = request.node.name.replace("[", ".").replace("]", "").replace("_", "-")
    model = ("--model-id", f"cli/{name}", "--version", "v1")
    shell.run("push", str(weights), *model)
    return model


def test_push_says_what_was_sent(shell, weights):
    model = ("--model-id", "cli/push", "--version", "v1")
    described = ("--param", "lr=0.5", "--dataset", "rows@1", "--group", "top=head", "--tag", "a=b")
    first = shell.lines("push", str(weights), *model, *described, "--alias", "staging")
    assert first[0].startswith("Published cli/push v1: 1 file, 34.")
    again = shell.json("push", str(weights), *model)
    assert (again["created"], again["bytes_sent"]) == (False, 0)
    shown = shell.json("show", "--model-id", "cli/push", "--version", "staging")
    assert shown["version"] == "v1"
    assert shown["metadata"]["parameters"] == {"lr": 0.5}
    assert shown["metadata"]["dataset"] == {"id": "rows", "version": "1"}
    assert shown["metadata"]["groups"] == {"top": ["head"]}


def test_push_again_says_once_that_it_was_there(shell, pushed, weights):
    again = shell.run("push", str(weights), *pushed)
    name = f"{pushed[1]} v1 was there already with the same bytes (1 file, 34.0 kB)"
    assert again.stdout.splitlines()[0] == f"{name}; nothing changed."
    assert again.stderr == ""
    renamed = shell.run("push", str(weights), *pushed, "--alias", "prod", "--metric", "loss=1")
    assert renamed.stdout.splitlines()[0] == f"{name}; only alias prod was set."
    note = "The metadata of 'v1' differs from yours and stays as it was published.\n"
    assert renamed.stderr == note
    assert shell.json("show", "--model-id", pushed[1], "--version", "prod")["version"] == "v1"


def test_push_of_other_bytes_is_a_conflict(shell, pushed, weights):
    weights.write_bytes(b"other bytes")
    problem = shell.json("push", str(weights), *pushed, code=5)
    assert problem["code"] == "version_conflict"
    assert problem["detail"] == (
        f"Version 'v1' of model {pushed[1]!r} exists with other bytes and stays as it is;"
        " push under another version name."
    )


def test_push_keeps_the_commit_of_the_checkout_that_holds_the_path(shell, tmp_path):
    code, data = checkout(tmp_path / "code"), checkout(tmp_path / "data")
    (tmp_path / "plain.bin").write_bytes(b"elsewhere")
    for path, version, expected in (
        (tmp_path / "data" / "file.bin", "file", data),
        (tmp_path / "data", "folder", data),
        (tmp_path / "plain.bin", "elsewhere", code),
    ):
        model = ("--model-id", "cli/commits", "--version", version)
        shell.run("push", str(path), *model, cwd=tmp_path / "code")
        assert shell.json("show", *model)["metadata"]["git_commit"] == expected


def checkout(folder: Path) -> str:
    """Make a repository with one commit; return that."""
    folder.mkdir()
    (folder / "file.bin").write_bytes(folder.name.encode())
    git = ("git", "-C", folder, "-c", "user.name=A", "-c", "user.email=a@example.org")
    for arguments in (("init", "--quiet"), ("add", "."), ("commit", "--quiet", "-m", "One")):
        subprocess.run([*git, *arguments], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    return head.stdout.strip()


def test_files_without_tensors_say_so(shell, tmp_path):
    (tmp_path / "opaque.bin").write_bytes(b"opaque")
    model = ("--model-id", "cli/opaque", "--version", "v1")
    shell.run("push", str(tmp_path / "opaque.bin"), *model)
    assert "no tensors that can be told apart" in shell.lines("layers", *model)[1]
    for option in (("--layers", "encoder"), ("--weights-only",)):
        problem = shell.json("get", *model, *option, code=3)
        assert problem["detail"].endswith("get them whole.")


def test_push_of_nothing_is_not_found(shell):
    problem = shell.json("push", "gone", "--model-id", "cli/x", "--version", "v1", code=3)
    assert problem["code"] == "path_not_found"


def test_push_with_a_bad_name_is_wrong_usage(shell, weights):
    done = shell.run("push", str(weights), "--model-id", "UPPER", "--version", "v1", code=2)
    assert "model id" in done.stderr
    assert done.stderr.count("\n") == 1


def test_get_of_a_layer_is_a_file_of_its_own(shell, pushed):
    fetched = shell.json("get", *pushed, "--layers", "encoder.layer.1", "--output", "part")
    assert {"model_id", "version", "manifest_digest", "output", "bytes_selected", "bytes_fetched",
            "bytes_reused", "requests", "elapsed_s"} <= fetched.keys()  # fmt: skip
    (file,) = fetched["files"]
    assert (file["path"], file["complete"]) == ("m.safetensors", False)
    loaded = load_file(shell.folder / "part" / "m.safetensors")
    assert list(loaded) == ["encoder.layer.1.weight"]
    assert (loaded["encoder.layer.1.weight"] == 1).all()


def test_get_says_how_much_of_how_much(shell, pushed):
    shell.environment["AI_MODEL_CACHE"] = str(shell.folder / "another machine")
    lines = shell.lines("get", *pushed, "--layers", "head", "--output", "head")
    assert lines[0].startswith(f"Got {pushed[1]} v1 into head: 1 file, 1.")
    assert "of 34.0 kB" in lines[0]
    assert lines[1].startswith("Fetched 1.")
    assert "Every byte was verified" in lines[2]


def test_get_of_no_layer_lists_near_ones(shell, pushed):
    problem = shell.json("get", *pushed, "--layers", "encodr", code=3)
    assert (problem["code"], problem["near"][0]) == ("no_match", "encoder")


def test_get_of_no_version_is_not_found(shell, pushed):
    problem = shell.json("get", "--model-id", pushed[1], "--version", "v9", code=3)
    assert problem["code"] == "version_not_found"


def test_layers_are_a_tree(shell, pushed):
    lines = shell.lines("layers", *pushed, "--depth", "4")
    assert lines[0] == f"{pushed[1]} v1: 3 tensors, 33.8 kB"
    assert [line.split()[:2] for line in lines[1:]] == [
        ["LAYER", "TENSORS"],
        ["encoder", "2"],
        ["layer", "2"],
        ["0", "1"],
        ["weight", "1"],
        ["1", "1"],
        ["weight", "1"],
        ["head", "1"],
        ["weight", "1"],
    ]
    assert lines[-1].split()[4:] == ["F32", "[4,", "64]"]
    document = shell.json("layers", *pushed, "--depth", "1")
    assert [(layer["name"], layer["size"]) for layer in document["layers"]] == [
        ("encoder", 2 * LAYER_BYTES),
        ("head", 1024),
    ]
    assert {tensor["name"] for tensor in document["tensors"]} >= {"head.weight"}


def test_verify_names_what_is_bad(shell, pushed):
    shell.run("get", *pushed, "--output", "whole")
    assert shell.lines("verify", "whole")[-1].startswith("Every byte is that of")
    file = shell.folder / "whole" / "m.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"\x07")
    done = shell.run("verify", "whole", code=6)
    assert done.stdout.startswith("bad     m.safetensors")
    assert "tensor head.weight" in done.stdout
    assert shell.json("verify", "whole", code=6)["ok"] is False


def test_ls_lists_models_and_versions(shell, pushed):
    prefix = pushed[1]
    assert [m["model_id"] for m in shell.json("ls", "--prefix", prefix)["models"]] == [prefix]
    assert shell.lines("ls", "--prefix", prefix)[1].split()[:3] == [prefix, "1", "v1"]
    assert [v["version"] for v in shell.json("ls", "--model-id", prefix)["versions"]] == ["v1"]
    assert shell.lines("ls", "--model-id", prefix)[1].startswith("v1")


def test_show_has_every_file(shell, pushed):
    lines = shell.lines("show", *pushed)
    assert lines[0] == f"{pushed[1]} v1"
    assert lines[-1].startswith("m.safetensors")


def test_diff_names_tensors(shell, pushed, weights):
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    shell.run("push", str(weights), "--model-id", pushed[1], "--version", "v2")
    found = shell.json("diff", *pushed, "--to", "v2")
    assert [(t["name"], t["status"]) for t in found["tensors"]] == [("head.weight", "changed")]
    assert found["bytes_new"] == 1024
    assert (
        "1 file and 1 tensor differ; 1.0 kB are new."
        in shell.run("diff", *pushed, "--to", "v2").stdout
    )


def test_aliases_move(shell, pushed, weights):
    model = pushed[:2]
    assert shell.json("alias", "set", "production", *pushed)["version"] == "v1"
    shell.run("alias", "set", "production", *pushed, "--create-only")  # where it points already
    shell.run("push", str(weights), *model, "--version", "v2")
    newer = ("alias", "set", "production", *model, "--version", "v2")
    shell.run(*newer, "--create-only", code=5)
    assert shell.lines("alias", "ls", *model)[1].split()[:2] == ["production", "v1"]
    assert shell.json("alias", "rm", "production", *model)["removed"] is True
    assert shell.json("alias", "ls", *model) == {"aliases": []}


def test_a_yank_can_be_taken_back(shell, pushed):
    shell.run("yank", *pushed, "--reason", "leaked labels")
    assert "leaked labels" in shell.run("show", *pushed).stdout
    got = shell.run("get", *pushed, "--output", "out")
    assert got.stderr == f"{pushed[1]} v1 is marked as not to be used: leaked labels.\n"
    latest = shell.json("get", "--model-id", pushed[1], code=3)
    assert latest["detail"] == f"Model {pushed[1]!r} has no version that is not yanked."
    assert shell.json("yank", *pushed, "--undo")["yanked_at"] is None


def test_tokens_are_made_used_and_ended(shell, weights):
    made = shell.json("token", "create", "ci", "--role", "writer", "--models", "ci/*",
                      "--expires-in", "1h")  # fmt: skip
    shell.environment["AI_MODEL_TOKEN"] = made["token"]
    assert shell.json("whoami")["name"] == "ci"
    shell.run("push", str(weights), "--model-id", "ci/m", "--version", "v1")
    shell.run("push", str(weights), "--model-id", "other", "--version", "v1", code=4)
    shell.run("token", "ls", code=4)
    del shell.environment["AI_MODEL_TOKEN"]
    assert "ci" in shell.run("token", "ls").stdout
    shell.run("token", "revoke", made["token_id"])
    shell.environment["AI_MODEL_TOKEN"] = made["token"]
    assert shell.json("whoami", code=4)["code"] == "unauthenticated"


def test_login_keeps_a_token_that_works(shell, served):
    settings = tomllib.loads((served / "client.toml").read_text())
    config = shell.folder / "home" / "config.toml"
    shell.environment["AI_MODEL_CONFIG"] = str(config)
    login = ("login", "--endpoint", settings["endpoint"])
    refused = shell.run(*login, input="not a token\n", code=4)
    assert "ai-model login" in refused.stderr
    assert not config.exists()
    shell.run(*login, input=settings["token"] + "\n")
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    assert shell.json("whoami")["endpoint"] == settings["endpoint"]


def test_without_a_token_nothing_is_answered(shell, served):
    endpoint = tomllib.loads((served / "client.toml").read_text())["endpoint"]
    shell.environment["AI_MODEL_CONFIG"] = str(_empty(shell.folder))
    assert shell.json("ls", "--endpoint", endpoint, code=4)["code"] == "unauthenticated"


def test_stdout_has_the_answer_and_nothing_else(shell, pushed):
    done = shell.run("get", *pushed, "--output", "whole", "--json")
    json.loads(done.stdout)
    assert done.stderr == ""


def _empty(folder: Path) -> Path:
    path = folder / "empty.toml"
    path.write_text("")
    return path
