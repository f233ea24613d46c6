"""Bars: only on a terminal, gone at the end, notes always."""

import io

from ai_model.progress import Progress
from ai_model_cli.progress import Bars, bar


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_bar_says_verb_share_and_bytes():
    line = bar(Progress("fetch", 25_000_000, 100_000_000), elapsed_s=0.5)
    assert line == "Fetching  [######..................] 25.0 MB of 100.0 MB, 50.0 MB/s"


def test_no_terminal_no_bar_but_notes():
    stream = io.StringIO()
    with Bars(stream) as bars:
        bars(Progress("fetch", 1, 2))
        bars(Progress("fetch", 1, 2, note="Trying again."))
    assert stream.getvalue() == "Trying again.\n"


def test_a_terminal_is_left_clean():
    stream = Terminal()
    with Bars(stream) as bars:
        bars(Progress("hash", 1, 2))
        bars(Progress("hash", 2, 2))
    shown = stream.getvalue()
    assert "Hashing" in shown
    assert shown.endswith("\r\x1b[K")


def test_an_empty_phase_draws_nothing():
    stream = Terminal()
    with Bars(stream) as bars:
        bars(Progress("reuse", 0, 0))
    assert "Reusing" not in stream.getvalue()


def test_of_two_phases_at_once_the_last_to_begin_is_shown_and_then_the_other():
    stream = Terminal()
    with Bars(stream) as bars:
        bars(Progress("reuse", 1, 10))
        bars(Progress("fetch", 1, 10))
        shown = stream.getvalue()
        bars(Progress("reuse", 9, 10))
        assert stream.getvalue() == shown
        bars(Progress("fetch", 10, 10))
        bars(Progress("reuse", 10, 10))
    verbs = [line.split()[0] for line in stream.getvalue().split("\r\x1b[K") if line]
    assert verbs == ["Reusing", "Fetching", "Fetching", "Reusing"]
