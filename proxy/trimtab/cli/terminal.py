"""Drawing in a terminal: the console, bars and texts cut to a width.

Narrow terminals and terminals without UTF-8 get less, pipes get plain text; nothing here knows what is drawn.
"""

from __future__ import annotations

import os
import sys

from rich.cells import cell_len, set_cell_size
from rich.console import Console

_PIPED_WIDTH = 110  # columns of what is piped or logged: as wide as most windows, not 80
_EIGHTHS = " ▏▎▍▌▋▊▉"


def open_console() -> Console:
    """The console of a command, on standard output; colours and live drawing only on a terminal."""
    piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(highlight=False, width=_PIPED_WIDTH if piped else None)


def ascii_only(out: Console) -> bool:
    """True when bars and marks must be ASCII."""
    return not out.encoding.lower().startswith("utf")


def printable(text: str) -> str:
    """`text` with `?` for control characters: names of tools and models come from others."""
    return "".join(c if c.isprintable() else "?" for c in text)


def bar(amount: int, scale: int, cells: int, out: Console) -> str:
    """A bar of `amount` where `scale` is `cells` columns wide, to an eighth of a column."""
    eighths = round(amount / scale * cells * 8)
    if ascii_only(out):
        return "#" * max(round(eighths / 8), amount > 0)
    whole, rest = divmod(max(eighths, amount > 0), 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")


def fitted(text: str, cells: int, out: Console) -> str:
    """`text` in at most `cells` columns, with a mark at its end where it is cut."""
    if ascii_only(out):
        text = text.replace("×", "x").encode("ascii", "replace").decode()
    if cell_len(text) <= cells:
        return text
    mark = "~" if ascii_only(out) else "…"
    return set_cell_size(text, cells - 1) + mark
