"""What an author says about a version, from the options of ``push`` to one mapping."""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click

_Function = TypeVar("_Function", bound=Callable[..., Any])


def metadata_options(command: _Function) -> _Function:
    """Add the options that describe a version."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def gather(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata that the options describe, only what was given.

    Raises:
        click.UsageError: an option cannot be read.
    """
    described = {
        "dataset": parse_dataset(given["dataset"]) if given["dataset"] else None,
        "parameters": _values(given, "param", "params_file"),
        "metrics": _values(given, "metric", "metrics_file"),
        "git_commit": given["git_commit"],
        "parents": [parse_parent(text) for text in given["parent"]],
        "tags": pairs(given["tag"], "--tag"),
        "groups": {name: _split(text) for name, text in pairs(given["group"], "--group").items()},
        **_schemas(_read_object(given["schema"], "--schema")),
    }
    return {key: value for key, value in described.items() if value}


def parse_dataset(text: str) -> dict[str, str]:
    """Read ``ID@VERSION`` or ``ID``. Pure."""
    name, at, version = text.rpartition("@")
    if not at:
        return {"id": text}
    if not name or not version:
        _refuse("--dataset", text, "ID@VERSION")
    return {"id": name, "version": version}


def parse_parent(text: str) -> dict[str, str]:
    """Read ``MODEL@VERSION``. Pure."""
    model_id, _, version = text.partition("@")
    if not model_id or not version:
        _refuse("--parent", text, "MODEL@VERSION")
    return {"model_id": model_id, "version": version}


def parse_value(text: str) -> Any:
    """Read a value as JSON (``3``, ``0.5``, ``true``, ``null``), else take it as text. Pure.

    Raises:
        ValueError: it is NaN or an infinity, which JSON does not have.
    """
    if text.lower().lstrip("+-") in ("nan", "inf", "infinity"):
        raise ValueError("JSON has no NaN and no infinity")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _values(given: Mapping[str, Any], option: str, file_option: str) -> dict[str, Any]:
    """Return the values of a file, gone over by the pairs given one by one."""
    stored = _read_object(given[file_option], f"--{file_option.replace('_', '-')}")
    return stored | json_pairs(given[option], f"--{option}")


def pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    """Read texts of the form ``KEY=VALUE``. Pure.

    Raises:
        click.UsageError: one has another form, or a key comes twice.
    """
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            _refuse(option, text, "KEY=VALUE")
        if key in found:
            raise click.UsageError(f"{option} gives {key!r} twice.")
        found[key] = value
    return found


def json_pairs(texts: Iterable[str], option: str) -> dict[str, Any]:
    """Read them likewise, each value as JSON if it reads so. Pure.

    Raises:
        click.UsageError: also where a value is NaN or an infinity.
    """
    values: dict[str, Any] = {}
    for key, text in pairs(texts, option).items():
        try:
            values[key] = parse_value(text)
        except ValueError as error:
            raise click.UsageError(f"{option} {key}={text}: {error}.") from error
    return values


def _read_object(path: Path | None, option: str) -> dict[str, Any]:
    """Return the JSON object in a file, nothing where there is no file."""
    if path is None:
        return {}
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise click.UsageError(f"{option} {path} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{option} {path} is not JSON: {error}.") from error
    if not isinstance(value, dict):
        raise click.UsageError(f"{option} {path} must hold a JSON object.")
    return value


def _schemas(value: dict[str, Any]) -> dict[str, Any]:
    unknown = value.keys() - {"input", "output"}
    if unknown:
        names = ", ".join(sorted(unknown))
        raise click.UsageError(f"--schema must hold 'input', 'output' or both, not {names}.")
    return {f"{side}_schema": schema for side, schema in value.items()}


def _split(text: str) -> list[str]:
    return [pattern.strip() for pattern in text.split(",")]


def _refuse(option: str, text: str, form: str) -> NoReturn:
    raise click.UsageError(f"{option} {text!r} is not of the form {form}.")


def _file(option: str, help_text: str) -> Callable[[_Function], _Function]:
    return click.option(option, type=click.Path(path_type=Path), metavar="FILE", help=help_text)


def _many(option: str, form: str, help_text: str) -> Callable[[_Function], _Function]:
    return click.option(option, multiple=True, metavar=form, help=f"{help_text} Repeatable.")


_OPTIONS = (
    click.option("--dataset", metavar="ID@VERSION", help="Data the version was made from."),
    _many("--param", "KEY=VALUE", "Parameter; the value is JSON if it reads so, else text."),
    _file("--params-file", "JSON object of parameters; --param goes over it."),
    _many("--metric", "KEY=VALUE", "Metric; the value is JSON if it reads so, else text."),
    _file("--metrics-file", "JSON object of metrics; --metric goes over it."),
    _file("--schema", "JSON object with the JSON Schemas 'input' and 'output'."),
    click.option(
        "--git-commit", metavar="HEX", help="Commit of the code.  [default: that of the checkout]"
    ),
    _many("--parent", "MODEL@VERSION", "Version this one was made from, as a fine-tune is."),
    _many("--tag", "KEY=TEXT", "Any further word about the version."),
    _many("--group", "NAME=PATTERN,...", "Name for a group of layers, for get --layers NAME."),
)
