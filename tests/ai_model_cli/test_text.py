"""Laws of what is shown on a terminal."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ai_model_cli.text import count, human_size, printable, share, table, when


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (42_583_296, "42.6 MB"),
        (2 * 1024**3, "2.1 GB"),
        (10**18, "1000.0 PB"),
    ],
)
def test_sizes_read_in_the_unit_that_fits(size, shown):
    assert human_size(size) == shown


@given(st.text())
def test_a_terminal_shows_names_and_obeys_none(text):
    shown = printable(text)
    assert shown.isprintable()
    if text.isprintable():
        assert shown == text


def test_escape_codes_in_a_name_are_shown():
    assert printable("a\x1b[2Jb\ud800") == "a\\x1b[2Jb\\ud800"


def test_numbers_and_times():
    assert count(1, "file") == "1 file"
    assert count(1200, "file") == "1,200 files"
    assert share(1, 4) == "25.0%"
    assert share(0, 0) == "100.0%"
    assert when(datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)) == "2026-01-02 03:04:05Z"
    assert when(None) == "-"


def test_a_table_lines_up():
    lines = list(table(("NAME", ">SIZE", "X"), [("a", "10 B", "é"), ("longer", "9 B", "")]))
    assert lines == ["NAME    SIZE  X", "a       10 B  é", "longer   9 B"]
