"""What a tool result becomes when it is cleared, found without making it: how many tokens are left, and where they come
from. Every result that is cleared is measured first, and most are removed later without ever being sent cleared.

For results as most clients write them: compact, with one text as their content. The others are made and read.
"""

from __future__ import annotations

import json
from array import array

import msgspec
from msgspec import Raw

from trimtab.context.apply.origins import Origins, in_json, ours
from trimtab.context.estimate.tokens import SCALE, between, weight
from trimtab.context.extract.result import of_result, read_of
from trimtab.context.texts import CLEARED_TO_EXTRACT, LEFT_OUT, PLACEHOLDER

_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_text = msgspec.json.Decoder(str).decode
_FIRST = f"{CLEARED_TO_EXTRACT}\n".encode()
_ABOVE, _PLACEHOLDER = ours(in_json(f"{CLEARED_TO_EXTRACT}\n")), ours(in_json(PLACEHOLDER))
_LEFT_OUT = ours(in_json(LEFT_OUT.rstrip()))
_FIRST_WEIGHT, _PLACEHOLDER_TOKENS = weight(_FIRST), 1 + weight(PLACEHOLDER.encode()) // SCALE
_OF_OURS = "[This tool ran"
_MOST_BYTES = 12  # of one character in JSON
_REACH = 256  # bytes in which a blank is looked for, behind the beginning of a text


class Cleared(msgspec.Struct, frozen=True, gc=False):
    """A result as it will be: tokens of its content, and its origins where all of it can be found in its source."""

    content_tokens: int
    origins: Origins | None


def cleared_result(source: bytes, field: str, tokens: int) -> Cleared | None:
    """What `rewrite` makes of a result, whose content is its `field`, with an extract of at most `tokens` tokens. None
    for one that is not written as most are."""
    place = _place(source, field)
    if place is None:
        return None
    start, stop = place
    try:
        text = _beginning(source, start, stop, read_of(tokens))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    if text.startswith(_OF_OURS):  # cleared before
        return None
    found = of_result(text, tokens)
    if not found.end:
        return Cleared(_PLACEHOLDER_TOKENS, array("i", [0, start, *_PLACEHOLDER, stop, len(source)]))
    of = _FIRST_WEIGHT + between(_FIRST[-1], found.shown[0].encode()[0]) + found.weight
    return Cleared(1 + of // SCALE, _origins(source, start, stop, text[: found.end], is_cut=found.end < len(text)))


def _place(source: bytes, field: str) -> tuple[int, int] | None:
    """Where a text that is a field of a compact object stands, between its quotes; None for anything else."""
    try:
        fields = _fields(source if source.isascii() else source.decode())
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    at, start, stop = 1, 0, 0
    for name, value in fields.items():
        at += len(name) + 3
        if name == field:
            start, stop = at + 1, at + len(value) - 1
        at += len(value) + 1
    # Blanks, a name that is there twice, or one with escapes or beyond ASCII: then the parts are not as long as the
    # whole.
    return (start, stop) if at == len(source) and source[start - 1 : start] == b'"' else None


def _beginning(source: bytes, start: int, stop: int, chars: int) -> str:
    """At least the first `chars` characters of a text between quotes."""
    # A blank is not within a character or an escape. Most texts have few of these.
    most = chars + chars // 4
    if stop - start > most + _REACH and (blank := source.find(b" ", start + most, start + most + _REACH)) >= 0:
        text = _text(source[start - 1 : blank] + b'"')
        if len(text) >= chars:
            return text
    most = chars * _MOST_BYTES
    if stop - start > 2 * most and (blank := source.find(b" ", start + most, start + 2 * most)) >= 0:
        stop = blank
    return _text(source[start - 1 : stop] + b'"')


def _origins(source: bytes, start: int, stop: int, kept: str, *, is_cut: bool) -> Origins | None:
    """The pieces: the beginning and the end of the source, and between them the text that is kept, where that is
    written as JSON libraries write it."""
    written = in_json(kept)
    if not source.startswith(written, start):
        written = json.dumps(kept)[1:-1].encode()
        if not source.startswith(written, start):
            return None
    cut = _LEFT_OUT if is_cut else ()
    return array("i", (0, start, *_ABOVE, -1 - start, start + len(written), *cut, stop, len(source)))
