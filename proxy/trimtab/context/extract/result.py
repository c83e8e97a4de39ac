"""The extract of one tool result, which stays where the result is cleared: how it begins, if there are names in that. A
pure function of its text, so that it never changes.

A result begins with what it is, and what is worth keeping of it has a name. Excerpts around its names were hardly
needed more often (docs/policy.md), and to find them costs several times as much, at every request again.
"""

from __future__ import annotations

from trimtab.context.estimate.tokens import text_tokens
from trimtab.context.extract.names import names_among, words
from trimtab.context.extract.parts import one_line
from trimtab.context.texts import LEFT_OUT

_CHARS_PER_TOKEN = 3.3
_SHORTER = 0.8  # of the characters, where they were more tokens than expected


def of_result(text: str, tokens: int) -> str:
    """The beginning of a result on one line, of at most `tokens` tokens; "" when it names nothing."""
    chars = int(tokens * _CHARS_PER_TOKEN)
    if not names_among(words(text[:chars])):
        return ""
    while chars > 0:
        stop = min(chars, len(text))
        if stop < len(text) and (blank := text.rfind(" ", stop // 2, stop)) > 0:
            stop = blank
        found = one_line(text[:stop]) + (LEFT_OUT.rstrip() if stop < len(text) else "")
        if text_tokens(found) <= tokens:
            return found
        chars = int(chars * _SHORTER)
    return ""
