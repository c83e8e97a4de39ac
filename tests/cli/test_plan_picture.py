"""The drawing of a plan: bars to scale, words cut to room, terminals of every kind."""

from __future__ import annotations

import io
from collections import Counter

import pytest
from rich.console import Console

from trimtab.cli.plan_picture import bar, content, fates, fitted, place
from trimtab.cli.plan_rows import Item, Run
from trimtab.cli.terminal import printable


class Terminal(io.StringIO):
    """A terminal of a given encoding."""

    def __init__(self, encoding: str) -> None:
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding


def console(encoding: str = "utf-8") -> Console:
    return Console(file=Terminal(encoding), width=80)


@pytest.mark.parametrize(
    ("tokens", "drawn"),
    [(0, ""), (1000, "█" * 10), (500, "█" * 5), (550, "█" * 5 + "▌"), (1, "▏")],
)
def test_bars_are_to_scale_and_never_vanish(tokens: int, drawn: str) -> None:
    assert bar(tokens, 1000, 10, console()) == drawn


@pytest.mark.parametrize(("tokens", "drawn"), [(0, ""), (1000, "#" * 10), (1, "#")])
def test_bars_do_without_utf8(tokens: int, drawn: str) -> None:
    assert bar(tokens, 1000, 10, console("ascii")) == drawn


def result(index: int, *tools: str, kind: str = "tool results") -> Item:
    return Item(index, kind, "kept", 10, 10, tools)


@pytest.mark.parametrize(
    ("run", "said", "narrow"),
    [
        (Run((result(0, kind="user"),)), "user", "user"),
        (Run((result(0, kind="tool results"),)), "tool result", "tool result"),
        (
            Run((result(0, "read", kind="tool calls"), result(1))),
            "1 call, 1 result: read",
            "2 messages: read",
        ),
        (
            Run((result(0, "a", "b", "c", "d", "d", kind="tool calls"), result(1))),
            "1 call, 1 result: d ×2, a, b, and more",
            "2 messages: d ×2, a, b, and more",
        ),
    ],
)
def test_a_row_says_what_it_holds(run: Run, said: str, narrow: str) -> None:
    assert content(run) == said
    assert content(run, narrow=True) == narrow


def test_places_are_indexes_of_the_request() -> None:
    assert place(Run((result(3),))) == "3"
    assert place(Run((result(3), result(4), result(5)))) == "3-5"


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({"kept": 3}, "kept"),
        ({"dropped": 1}, "dropped"),
        ({"kept": 3, "cleared": 2}, "cleared 2"),
        ({"dropped": 1, "cleared": 2}, "cleared 2, dropped 1"),
    ],
)
def test_what_happens_leaves_out_what_goes_without_saying(counts: dict[str, int], said: str) -> None:
    assert fates(Counter(counts)).plain == said  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "encoding", "said"),
    [
        ("read ×3", "utf-8", "read ×3"),
        ("read ×3", "ascii", "read x3"),
        ("a much longer text", "utf-8", "a much lo…"),
        ("a much longer text", "ascii", "a much lo~"),
        ("工具工具工具", "utf-8", "工具工具 …"),
    ],
)
def test_text_is_cut_to_its_room(text: str, encoding: str, said: str) -> None:
    assert fitted(text, 10, console(encoding)) == said


def test_names_cannot_command_the_terminal() -> None:
    assert printable("read\x1b[31m\nfile") == "read?[31m?file"
