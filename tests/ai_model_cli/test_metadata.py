"""From the options of push to metadata."""

import json

import click
import pytest

from ai_model_cli.metadata import gather, parse_dataset, parse_parent, parse_value

NOTHING = {
    "dataset": None,
    "param": (),
    "params_file": None,
    "metric": (),
    "metrics_file": None,
    "schema": None,
    "git_commit": None,
    "parent": (),
    "tag": (),
    "group": (),
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("3e-5", 3e-5),
        ("true", True),
        ("null", None),
        ("True", "True"),
        ("adam", "adam"),
        ('"3"', "3"),
        ("", ""),
        ("[1, 2]", [1, 2]),
        ("a=b", "a=b"),
        ("[" * 100_000, "[" * 100_000),
    ],
)
def test_a_value_is_json_if_it_reads_so(text, value):
    assert parse_value(text) == value


@pytest.mark.parametrize("text", ["nan", "NaN", "-inf", "Infinity"])
def test_a_value_is_no_nan(text):
    with pytest.raises(ValueError, match="JSON has no NaN"):
        parse_value(text)


def test_datasets_and_parents():
    assert parse_dataset("snli@1.0") == {"id": "snli", "version": "1.0"}
    assert parse_dataset("s3://a@b/c@7") == {"id": "s3://a@b/c", "version": "7"}
    assert parse_dataset("snli") == {"id": "snli"}
    assert parse_parent("nlp/m@v1") == {"model_id": "nlp/m", "version": "v1"}


def test_nothing_given_describes_nothing():
    assert gather(NOTHING) == {}


def test_everything_given(tmp_path):
    params = tmp_path / "params.json"
    params.write_text(json.dumps({"lr": 1, "layers": [1, 2]}))
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps({"input": {"type": "object"}}))
    described = gather(
        NOTHING
        | {
            "dataset": "snli@1",
            "param": ("lr=2",),
            "params_file": params,
            "metric": ("accuracy=0.9",),
            "schema": schema,
            "parent": ("m@v1", "n@v2"),
            "tag": ("by=hand",),
            "group": ("head=pooler, classifier.*",),
        }
    )
    assert described == {
        "dataset": {"id": "snli", "version": "1"},
        "parameters": {"lr": 2, "layers": [1, 2]},
        "metrics": {"accuracy": 0.9},
        "parents": [{"model_id": "m", "version": "v1"}, {"model_id": "n", "version": "v2"}],
        "tags": {"by": "hand"},
        "groups": {"head": ["pooler", "classifier.*"]},
        "input_schema": {"type": "object"},
    }


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"param": ("lr",)}, "--param 'lr' is not of the form KEY=VALUE"),
        ({"param": ("=1",)}, "KEY=VALUE"),
        ({"tag": ("a=1", "a=2")}, "--tag gives 'a' twice"),
        ({"metric": ("loss=nan",)}, "--metric loss=nan: JSON has no NaN"),
        ({"parent": ("m",)}, "MODEL@VERSION"),
        ({"dataset": "@1"}, "ID@VERSION"),
    ],
)
def test_what_cannot_be_read_is_named(given, complaint):
    with pytest.raises(click.UsageError) as raised:
        gather(NOTHING | given)
    assert complaint in raised.value.message


@pytest.mark.parametrize(
    ("option", "content", "complaint"),
    [
        ("params_file", "[1]", "must hold a JSON object"),
        ("params_file", "{", "is not JSON"),
        ("metrics_file", "[" * 100_000, "is not JSON"),
        ("metrics_file", None, "cannot be read"),
        ("schema", '{"inputs": {}}', "'input', 'output' or both, not inputs"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path, option, content, complaint):
    path = tmp_path / "file.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(click.UsageError) as raised:
        gather(NOTHING | {option: path})
    assert complaint in raised.value.message
