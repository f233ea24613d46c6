"""JSON as its grammar has it, read in bounded memory. Pure.

Python's reader takes the last of two equal keys, ``NaN``, UTF-16 and lone
surrogates; two programs could then see two different files.
"""

import json
from collections import Counter
from typing import Any, NoReturn

MAX_MARKS = 4_000_000
"""Of ``[``, ``{`` and ``,``: each may cost an object in memory."""


class InvalidJson(ValueError):
    """Bytes are not JSON, or could be read in two ways."""


class TooManyParts(ValueError):
    """JSON holds more parts than is read."""


def parse_object(data: bytes) -> dict[str, Any]:
    """Return the JSON object that ``data`` is in UTF-8.

    Raises:
        InvalidJson: naming what is wrong.
        TooManyParts: there are more than ``MAX_MARKS`` brackets and commas.
    """
    if sum(data.count(mark) for mark in (b"[", b"{", b",")) > MAX_MARKS:
        raise TooManyParts(f"it holds more than {MAX_MARKS} brackets and commas")
    try:
        value = json.loads(
            data.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse_constant
        )
    except InvalidJson:
        raise
    except RecursionError:
        raise InvalidJson("it is nested too deep") from None
    except ValueError as error:
        raise InvalidJson(f"it is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise InvalidJson("it is not a JSON object")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        counts = Counter(key for key, _ in pairs)
        twice = next(key for key, count in counts.items() if count > 1)
        raise InvalidJson(f"it names {twice[:200]!r} twice")
    return members


def _refuse_constant(text: str) -> NoReturn:
    raise InvalidJson(f"it holds {text}, which is not JSON")
