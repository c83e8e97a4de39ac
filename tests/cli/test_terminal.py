"""Where the commands draw."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tests.cli.commands import shell
from trimtab.cli.terminal import ascii_only, open_console, printable


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
