"""The receipt: what a directory holds, so that it can be verified and copied from later."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ai_model.cache import Held, HeldFile, runs_from_json, runs_to_json
from ai_model.get.place import Staging
from ai_model.get.select import Selection
from ai_model.results import GotFile
from ai_model.version import Version
from ai_model_format.digest import parse_digest
from ai_model_format.names import parse_path

SCHEMA = 1


def merge_receipt(
    before: dict[str, Any] | None,
    version: Version,
    selection: Selection,
    files: Sequence[tuple[GotFile, HeldFile]],
) -> tuple[dict[str, Any], list[str]]:
    """Return the receipt after a get, and paths that an earlier get of other bytes left.

    Files of an earlier get of the same version stay in the receipt.
    """
    asked = selection.to_json()
    entries = {
        file.path: {**file.to_json(), "selection": asked, "runs": runs_to_json(held.runs)}
        for file, held in files
    }
    earlier = {entry["path"]: entry for entry in _entries(before)}
    others = {path: entry for path, entry in earlier.items() if path not in entries}
    same = before is not None and before.get("manifest_digest") == version.digest
    if same:
        entries |= others
    receipt = {
        "schema": SCHEMA,
        "endpoint": version.api.config.endpoint,
        "model_id": version.model_id,
        "version": version.name,
        "manifest_digest": version.digest,
        "files": [entries[path] for path in sorted(entries)],
    }
    return receipt, [] if same else sorted(others)


def held_in(directory: Path) -> Held | None:
    """Return which bytes a directory is said to hold, ``None`` where it says nothing.

    It may have been written on another machine, or by another user: a receipt lies in the
    directory itself and names places below it.
    """
    receipt = Staging(directory).read_receipt() or {}
    root = directory.resolve()
    try:
        files = [_held_file(root, entry) for entry in _entries(receipt)]
        digest = parse_digest(receipt["manifest_digest"])
        return Held(str(root), str(receipt["model_id"]), digest, tuple(filter(None, files)))
    except (ValueError, KeyError, TypeError):
        return None


def _held_file(root: Path, entry: dict[str, Any]) -> HeldFile | None:
    """Return an entry's file as it is now; who copies from it hashes anyway."""
    path = root / parse_path(entry["path"])
    if "runs" not in entry or not path.is_file():
        return None
    status = path.stat()
    if status.st_size != entry["size"]:
        return None
    runs = runs_from_json(entry["runs"])
    return HeldFile(str(path), status.st_size, status.st_mtime_ns, entry["path"], runs)


def _entries(receipt: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return the entries that can be read; anybody may have edited the file."""
    files = (receipt or {}).get("files")
    return [
        entry
        for entry in (files if isinstance(files, list) else [])
        if isinstance(entry, dict) and isinstance(entry.get("path"), str)
    ]


def read_selections(receipt: dict[str, Any]) -> dict[Selection, set[str]]:
    """Return the paths that each selection of a receipt wrote.

    Raises:
        ValueError: the receipt cannot be read.
    """
    found: dict[Selection, set[str]] = {}
    for entry in _entries(receipt):
        found.setdefault(_selection(entry.get("selection")), set()).add(entry["path"])
    return found


def _selection(value: Any) -> Selection:
    if not isinstance(value, dict):
        raise ValueError("a file has no selection")
    texts = [value.get(key) for key in ("layers", "exclude", "files")]
    if not all(isinstance(t, list) and all(isinstance(x, str) for x in t) for t in texts):
        raise ValueError("a selection is not lists of texts")
    layers, exclude, files = (tuple(text) for text in texts if text is not None)
    return Selection(layers, exclude, files, bool(value.get("weights_only")))
