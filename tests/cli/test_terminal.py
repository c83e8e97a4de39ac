"""Drawing: bars to scale, texts cut to a width, terminals of every kind."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tests.cli.commands import shell
from trimtab.cli.terminal import ascii_only, bar, fitted, open_console, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [("gpt-4o", "gpt-4o"), ("读取", "读取"), ("a\x1b[31mb", "a?[31mb"), ("a\nb\r", "a?b?"), ("\x07", "?"), ("", "")],
)
def test_no_control_character_of_others_reaches_the_terminal(text: str, shown: str) -> None:
    assert printable(text) == shown


@pytest.mark.parametrize(
    ("encoding", "plain"), [("utf-8", False), ("UTF-8", False), ("ascii", True), ("latin-1", True)]
)
def test_a_terminal_without_utf_8_gets_ascii(encoding: str, plain: bool) -> None:
    assert ascii_only(Console(file=io.TextIOWrapper(io.BytesIO(), encoding))) is plain


def test_what_is_piped_is_as_wide_as_a_window_and_without_colours() -> None:
    done = shell("models", "--search", "gpt-4o*", COLUMNS="")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert not open_console().is_terminal


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


@pytest.mark.parametrize(
    ("text", "encoding", "printed"),
    [
        ("read ×3", "utf-8", "read ×3"),
        ("read ×3", "ascii", "read x3"),
        ("a much longer text", "utf-8", "a much lo…"),
        ("a much longer text", "ascii", "a much lo~"),
        ("工具工具工具", "utf-8", "工具工具 …"),
    ],
)
def test_text_is_cut_to_its_room(text: str, encoding: str, printed: str) -> None:
    assert fitted(text, 10, console(encoding)) == printed
