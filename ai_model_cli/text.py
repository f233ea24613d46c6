"""How sizes, times and names read on a terminal. Pure."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ai_model_format.wire import Dataset

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def human_size(size: int) -> str:
    """Return bytes in the unit that fits, in powers of 1000: ``42.6 MB``."""
    amount = float(size)
    for unit in _UNITS:
        if abs(amount) < 999.95 or unit == _UNITS[-1]:
            break
        amount /= 1000
    return f"{size} B" if unit == "B" else f"{amount:.1f} {unit}"


def share(part: int, whole: int) -> str:
    """Return a part of a whole in percent: ``46.9%``."""
    return f"{100 * part / whole:.1f}%" if whole else "100.0%"


def count(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 file``, ``2 files``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def when(moment: datetime | None) -> str:
    """Return a time to the second in UTC, ``-`` where there is none."""
    return moment.strftime("%Y-%m-%d %H:%M:%SZ") if moment else "-"


def dataset_name(dataset: "Dataset | None") -> str:
    """Return ``id@version`` of a dataset, nothing where there is none."""
    if dataset is None:
        return ""
    return f"{dataset.id}@{dataset.version}" if dataset.version else dataset.id


def printable(text: str) -> str:
    """Escape what a terminal would obey instead of show: names are data."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table, columns as wide as they must be.

    A column whose head starts with ``>`` is aligned to the right.
    """
    shown = [[printable(cell) for cell in row] for row in rows]
    heads = [name.removeprefix(">") for name in head]
    widths = [max(map(len, column)) for column in zip(heads, *shown, strict=True)]
    for row in [heads, *shown]:
        cells = [
            cell.rjust(width) if name.startswith(">") else cell.ljust(width)
            for name, cell, width in zip(head, row, widths, strict=True)
        ]
        yield "  ".join(cells).rstrip()
