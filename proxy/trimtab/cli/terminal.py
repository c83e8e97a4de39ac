"""Where the commands draw: standard output, as wide and as rich as it is."""

from __future__ import annotations

import os
import sys

from rich.console import Console

_PIPED_WIDTH = 110  # columns: what is piped or logged is as wide as most windows are, not 80


def open_console() -> Console:
    """The console of a command; colours and live drawing only on a terminal."""
    piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(highlight=False, width=_PIPED_WIDTH if piped else None)


def ascii_only(out: Console) -> bool:
    """Whether bars and marks have to do without UTF-8."""
    return not out.encoding.lower().startswith("utf")


def printable(text: str) -> str:
    """Names of tools and models are other people's: no control character of theirs reaches the terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)
