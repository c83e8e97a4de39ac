"""Cutting text where it does not hurt: never inside what a reader takes as one character, never inside an escape.

Python strings hold code points, so a surrogate pair cannot be split here; combining marks, joined emoji, flags and
backslash or terminal escapes can, and are not.
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
    """Whether the code points on both sides of `at` belong to one written character."""
    before, after = text[at - 1], text[at]
    if after in _JOINERS or before == "\u200d" or unicodedata.combining(after):
        return True
    if unicodedata.category(after) in ("Mn", "Mc", "Me") or "\U0001f3fb" <= after <= "\U0001f3ff":
        return True
    if "\U0001f1e6" <= before <= "\U0001f1ff" and "\U0001f1e6" <= after <= "\U0001f1ff":
        return True
    return before == "\r" and after == "\n"


def safe(text: str, at: int) -> int:
    """The nearest place at or before `at` (a count of characters) where `text` may be cut."""
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
    """`text` cut to at most `chars` characters, the mark included; unchanged when it is short enough."""
    if len(text) <= chars:
        return text
    mark = "\n" + TRUNCATED
    return text[: safe(text, chars - len(mark))] + mark if chars > len(mark) else TRUNCATED


def head_and_tail(text: str, chars: int) -> str:
    """The first two thirds and the last third of at most `chars` characters, the mark between them.

    Errors and totals stand at the end of a tool's output, the description of what it is at the beginning.
    """
    if len(text) <= chars:
        return text
    mark = "\n" + TRUNCATED + "\n"
    room = chars - len(mark)
    if room < 16:
        return TRUNCATED
    start = safe(text, len(text) - room // 3)
    return text[: safe(text, room - (len(text) - start))] + mark + text[start:]


def level(sizes: list[int], room: int) -> int:
    """The largest level at which the sizes, each cut to it, fit the room."""
    for k, size in enumerate(sizes):
        share = room // (len(sizes) - k)
        if size > share:
            return max(share, 0)
        room -= size
    return sizes[-1] if sizes else 0
