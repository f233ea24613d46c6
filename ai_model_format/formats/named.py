"""Weight formats by the name that manifests give them, each imported when it is asked for.

A further format is one module with one class and one more line in ``NAMES``.
"""

from functools import cache
from importlib import import_module

from ai_model_format.formats.interface import WeightFormat

NAMES = {
    "safetensors": ("safetensors", "Safetensors"),
    "torch_zip": ("torch_zip", "TorchZip"),
    "opaque": ("opaque", "Opaque"),
}
"""Module and class by name, in the order they are asked; the last one takes every file."""


@cache
def format_named(name: str) -> WeightFormat:
    """Return the format that a manifest names.

    Raises:
        LookupError: this version of ai-model has no such format.
    """
    if name not in NAMES:
        raise LookupError(f"weight format {name[:80]!r} is not known here")
    module, kind = NAMES[name]
    found: WeightFormat = getattr(import_module(f"ai_model_format.formats.{module}"), kind)()
    return found
