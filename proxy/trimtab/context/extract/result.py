"""The extract of one tool result, which stays where the result is cleared: how it begins, if there are names in that. A
pure function of its text, so that it never changes.

A result begins with what it is, and what is worth keeping of it has a name. Excerpts around its names were hardly
needed more often (docs/policy.md), and to find them costs several times as much.
"""

from __future__ import annotations

import msgspec

from trimtab.context.estimate.tokens import SCALE, between, weight
from trimtab.context.extract.names import has_name
from trimtab.context.extract.parts import one_line
from trimtab.context.texts import LEFT_OUT

_CHARS_PER_TOKEN = 3.3
_SHORTER = 0.8  # of the characters, where they were more tokens than expected
_CUT = LEFT_OUT.rstrip()
_CUT_WEIGHT, _CUT_FIRST = weight(_CUT.encode()), _CUT.encode()[0]


class Beginning(msgspec.Struct, frozen=True, gc=False):
    """The beginning of a result that is kept: its first `end` characters, on one line, which weigh so much."""

    end: int = 0
    shown: str = ""
    weight: int = 0  # in 1/64 tokens


_NOTHING = Beginning()


def read_of(tokens: int) -> int:
    """Characters of a result that are looked at for an extract of so many tokens: one more than it may have at most."""
    return int(tokens * _CHARS_PER_TOKEN) + 1


def of_result(text: str, tokens: int) -> Beginning:
    """The beginning of a result, of at most `tokens` tokens; nothing of one that has no name there. What comes after
    the first `read_of(tokens)` characters makes no difference."""
    chars = read_of(tokens) - 1
    read = text[: chars + 1]
    if not has_name(read[:chars]):
        return _NOTHING
    length = len(read)
    while chars > 0:
        end = min(chars, length)
        if end < length and (blank := read.rfind(" ", end // 2, end)) > 0:
            end = blank
        shown = one_line(read[:end])
        line = shown.encode("utf-8", "surrogatepass")
        of = weight(line)
        if end < length:
            shown += _CUT
            of += _CUT_WEIGHT + (between(line[-1], _CUT_FIRST) if line else 0)
        if 1 + of // SCALE <= tokens:
            return Beginning(end, shown, of)
        chars = int(chars * _SHORTER)
    return _NOTHING
