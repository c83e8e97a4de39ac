"""The extract of one tool result, which stays where the result is cleared: how it begins, if there are names in that. A
pure function of its text, so that it never changes.

A result begins with what it is, and what is worth keeping of it has a name. Excerpts around its names were hardly
needed more often (docs/policy.md), and to find them costs several times as much, at every request again.
"""

from __future__ import annotations

from lru import LRU

from trimtab.context.estimate.tokens import text_tokens
from trimtab.context.extract.names import names_among, words
from trimtab.context.extract.parts import one_line
from trimtab.context.read.views import digest
from trimtab.context.texts import LEFT_OUT

_CHARS_PER_TOKEN = 3.3
_SHORTER = 0.8  # of the characters, where they were more tokens than expected


# Where extracts end, by digest: the same results are cleared again at every request. It holds no text.
_ENDS: LRU[tuple[bytes, int], int] = LRU(20_000)


def of_result(text: str, tokens: int) -> str:
    """The beginning of a result on one line, of at most `tokens` tokens; "" when it names nothing."""
    read = text[: int(tokens * _CHARS_PER_TOKEN) + 1]
    key = (digest(read.encode("utf-8", "surrogatepass")), tokens)
    end = _ENDS.get(key)
    if end is None:
        end = _ENDS[key] = _end(read, tokens)
    return _shown(text, end) if end else ""


def _end(read: str, tokens: int) -> int:
    """The characters of a result that its extract has. `read`: one character more than it may have at most, if there
    are so many."""
    chars = int(tokens * _CHARS_PER_TOKEN)
    if not names_among(words(read[:chars])):
        return 0
    while chars > 0:
        end = min(chars, len(read))
        if end < len(read) and (blank := read.rfind(" ", end // 2, end)) > 0:
            end = blank
        if text_tokens(_shown(read, end)) <= tokens:
            return end
        chars = int(chars * _SHORTER)
    return 0


def _shown(text: str, end: int) -> str:
    return one_line(text[:end]) + (LEFT_OUT.rstrip() if end < len(text) else "")
