"""Whether a value is a JSON Schema, found out in bounded time. Pure."""

from typing import Any

import jsonschema
from jsonschema.validators import validator_for

from ai_model_format.manifest import canonical_json

MAX_SCHEMA_BYTES = 256 * 1024
MAX_SUBSCHEMAS = 4000
"""Objects and arrays: each takes up to half a millisecond to check."""
MAX_UNSORTED_ITEMS = 500
"""Of an array of neither strings nor numbers alone: each item may be compared with all others."""


def problem_of_schema(schema: dict[str, Any]) -> str | None:
    """Return why a value is no JSON Schema that the registry takes, ``None`` where it is one."""
    if len(canonical_json(schema)) > MAX_SCHEMA_BYTES:
        return f"it is larger than {MAX_SCHEMA_BYTES // 1024} KiB as JSON"
    too_much = _problem_of_shape(schema)
    if too_much is not None:
        return too_much
    try:
        validator_for(schema, default=jsonschema.Draft202012Validator).check_schema(schema)
    except jsonschema.SchemaError as error:
        return str(error.message)[:300]
    except RecursionError:
        return "it nests too deep"
    except (ArithmeticError, AttributeError, TypeError, ValueError):
        # The checker takes for granted that "$schema" is a URI and numbers in a pattern are small.
        return "its '$schema' or a pattern makes no sense"
    return None


def _problem_of_shape(schema: dict[str, Any]) -> str | None:
    left: list[Any] = [schema]
    seen = 0
    while left:
        value = left.pop()
        if isinstance(value, dict):
            left.extend(value.values())
        elif isinstance(value, list):
            if len(value) > MAX_UNSORTED_ITEMS and not _can_be_sorted(value):
                return f"an array of more than {MAX_UNSORTED_ITEMS} items mixes types"
            left.extend(value)
        else:
            continue
        seen += 1
        if seen > MAX_SUBSCHEMAS:
            return f"it has more than {MAX_SUBSCHEMAS} objects and arrays"
    return None


def _can_be_sorted(items: list[Any]) -> bool:
    kinds = {type(item) for item in items}
    return kinds <= {str} or kinds <= {int, float}
