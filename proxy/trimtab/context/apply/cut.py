"""Cutting text in safe places: never inside what a reader takes as one character, never inside an escape.

Python strings hold code points, so a surrogate pair cannot be split here. Combining marks, joined emoji, flags, and
backslash and terminal escapes could be, so a cut moves back to before them.
"""

from __future__ import annotations

import re
import unicodedata

from trimtab.context.texts import TRUNCATED

_LOOK_BACK = 48  # characters; longer joined sequences than this do not occur in writing
_JOINERS = {"\u200d", "\ufe0e", "\ufe0f", "\u20e3"}
# An escape that has begun before the cut and is not complete: JSON or shell backslashes, ANSI control sequences.
_OPEN_ESCAPE = re.compile(
    r"(?:(?<!\\)(?:\\\\)*\\(?:u[0-9a-fA-F]{0,3}|x[0-9a-fA-F]?|U[0-9a-fA-F]{0,7})?|\x1b(?:\[[0-9;?]*)?)\Z"
)


def _joined(text: str, at: int) -> bool:
    """True when the code points on both sides of `at` belong to one written character."""
    before, after = text[at - 1], text[at]
    if after in _JOINERS or before == "\u200d" or unicodedata.combining(after):
        return True
    if unicodedata.category(after) in ("Mn", "Mc", "Me") or "\U0001f3fb" <= after <= "\U0001f3ff":
        return True
    if "\U0001f1e6" <= before <= "\U0001f1ff" and "\U0001f1e6" <= after <= "\U0001f1ff":
        return True
    return before == "\r" and after == "\n"


def safe_cut(text: str, at: int) -> int:
    """The nearest place at or before `at` (both in characters) where `text` may be cut."""
    at = max(0, min(at, len(text)))
    if at == len(text):
        return at
    floor = max(0, at - _LOOK_BACK)
    while at > floor and _joined(text, at):
        at -= 1
    if open_escape := _OPEN_ESCAPE.search(text, max(0, at - 16), at):
        at = open_escape.start() if open_escape.start() > floor else at
    return at


def head(text: str, chars: int) -> str:
    """`text` cut to at most `chars` characters, with `[Truncated]` at its end; unchanged when it is short enough."""
    if len(text) <= chars:
        return text
    mark = "\n" + TRUNCATED
    return text[: safe_cut(text, chars - len(mark))] + mark if chars > len(mark) else TRUNCATED


def head_and_tail(text: str, chars: int) -> str:
    """`text` cut to at most `chars` characters, `[Truncated]` between its first two thirds and its last third.

    A tool's output begins with what it is, and errors and totals stand at its end.
    """
    if len(text) <= chars:
        return text
    mark = "\n" + TRUNCATED + "\n"
    room = chars - len(mark)
    if room < 16:
        return TRUNCATED
    start = safe_cut(text, len(text) - room // 3)
    return text[: safe_cut(text, room - (len(text) - start))] + mark + text[start:]


def fair_share(sizes: list[int], room: int) -> int:
    """The max-min fair share: the largest size at which `sizes` (in ascending order), each cut to it, fit the room."""
    for k, size in enumerate(sizes):
        share = room // (len(sizes) - k)
        if size > share:
            return max(share, 0)
        room -= size
    return sizes[-1] if sizes else 0
