"""The extract of one tool result, which stays where the result is cleared: a pure function of its text, so that it
never changes. Its first names, each with the words around it: a result begins with what it is.
"""

from __future__ import annotations

from trimtab.context.estimate.tokens import text_tokens
from trimtab.context.extract.names import mentions
from trimtab.context.extract.parts import one_line
from trimtab.context.extract.spans import Span, added, around, length
from trimtab.context.texts import LEFT_OUT

_READ = 8_000  # characters of the text that are looked at
_SIDE = 20  # characters around a name
_CHARS_PER_TOKEN = 3.3


def of_result(text: str, tokens: int) -> str:
    """Excerpts of a result, of at most `tokens` tokens; "" when none fits."""
    read = text[:_READ]
    found = mentions(read)
    spans: list[Span] = []
    for k in range(0, len(found), 3):
        more = added(spans, around(read, found[k + 1], found[k + 2], _SIDE))
        if length(more) / _CHARS_PER_TOKEN + 1.5 * len(more) > tokens:
            break
        spans = more
    while spans and text_tokens(_joined(read, spans)) > tokens:
        spans.pop()
    return _joined(read, spans)


def _joined(text: str, spans: list[Span]) -> str:
    return LEFT_OUT.join([one_line(text[first:last]) for first, last in spans])
