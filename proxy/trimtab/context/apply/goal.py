"""The context inside a user message: the part of it that may be cut while the goal stays word for word.

A client marks it in one of two ways: a text part with `"context": true`, or `<context>` at the start of a line and
`</context>` at the end of one. In a message without a mark it is guessed, where the settings allow that: all that comes
before the last paragraph, because prompts that are put together end with what they ask for.

It is cut as any text that stays: head and tail are kept, and `[Truncated]` stands between them. The tags stay.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Raw

from trimtab.context.apply.cut import fair_share, head_and_tail
from trimtab.context.read.texts import is_context, text_of
from trimtab.wire.body import fields_of

_OPENING, _CLOSING = "<context>", "</context>"
_ENDS_LINE = re.compile(r"[ \t\r]*$", re.MULTILINE).match

Span = tuple[int, int]  # of a text, in characters


def context_chars(raw: bytes | Raw, *, guess: bool) -> int:
    """Characters of context in a message, a part of one included; 0 without any. `guess`: where nothing is marked."""
    fields = fields_of(raw)
    found = _spans(_texts(fields), guess=guess)
    return sum([stop - start for spans in found for start, stop in spans])


def with_context_cut(fields: dict[str, Any], chars: int) -> None:
    """Cut the context in a message's fields to `chars` characters in all; long pieces give way to short ones."""
    texts = _texts(fields)
    found = _spans(texts, guess=True)
    most = fair_share(sorted([stop - start for spans in found for start, stop in spans]), chars)
    cut = [_cut(text, spans, most) for (text, _), spans in zip(texts, found, strict=True)]
    if "content" not in fields:
        fields["text"] = cut[0]
        return
    content = msgspec.json.decode(fields["content"])
    if isinstance(content, str):
        fields["content"] = cut[0]
        return
    left = iter(cut)
    fields["content"] = [part if text_of(part) is None else {**part, "text": next(left)} for part in content]


def _texts(fields: dict[str, Raw]) -> list[tuple[str, bool]]:
    """The texts of a message, or of a part of one, each with whether it is marked as a whole."""
    if "content" not in fields:
        part = {name: msgspec.json.decode(fields[name]) for name in ("type", "text", "context") if name in fields}
        text = text_of(part)
        return [] if text is None else [(text, is_context(part))]
    content = msgspec.json.decode(fields["content"])
    if isinstance(content, str):
        return [(content, False)]
    parts = content if isinstance(content, list) else []
    return [(text, is_context(part)) for part in parts if (text := text_of(part)) is not None]


def _spans(texts: list[tuple[str, bool]], *, guess: bool) -> list[list[Span]]:
    """The context of each text."""
    marked = [[(0, len(text))] if whole and text else _between_tags(text) for text, whole in texts]
    if any(marked) or not guess or not texts:
        return marked
    *before, (last, _) = texts
    stop = _before_last_paragraph(last)
    return [*([(0, len(text))] if text else [] for text, _ in before), [(0, stop)] if stop else []]


def _between_tags(text: str) -> list[Span]:
    """What stands between the tags. Linear in the text: where no tag closes, none is looked for again."""
    found: list[Span] = []
    at = 0
    while (start := _opening(text, at)) >= 0 and (stop := _closing(text, start)) >= 0:
        found.append(_without_line_ends(text, start, stop))
        at = stop + len(_CLOSING)
    return [(start, stop) for start, stop in found if stop > start]


def _opening(text: str, at: int) -> int:
    """The end of the next tag that begins its line, or -1: a tag within a sentence is part of it. Looks for the tag,
    not for the line, which takes a tenth of the time."""
    while (tag := text.find(_OPENING, at)) >= 0:
        line = tag
        while line > at and text[line - 1] in " \t":
            line -= 1
        at = tag + len(_OPENING)
        if line == 0 or text[line - 1] == "\n":
            return at
    return -1


def _closing(text: str, at: int) -> int:
    """The start of the next tag that ends its line, or -1."""
    while (tag := text.find(_CLOSING, at)) >= 0:
        at = tag + len(_CLOSING)
        if _ENDS_LINE(text, at):
            return tag
    return -1


def _without_line_ends(text: str, start: int, stop: int) -> Span:
    """Between two tags, but for the ends of their lines, so that each keeps its line."""
    if text.startswith("\r\n", start) or text.startswith("\n", start):
        start = text.index("\n", start) + 1
    if stop > start and text[stop - 1] == "\n":
        stop -= 1 + text.endswith("\r\n", start, stop)
    return start, stop


def _before_last_paragraph(text: str) -> int:
    """Where what comes before the last paragraph ends; 0 where nothing does. Paragraphs are parted by blank lines."""
    at = len(text.rstrip())
    while (end := text.rfind("\n", 0, at)) >= 0:
        start = text.rfind("\n", 0, end) + 1
        if not text[start:end].strip():
            return len(text[:start].rstrip())
        at = end
    return 0


def _cut(text: str, spans: list[Span], most: int) -> str:
    """A text with each span cut to `most` characters."""
    pieces, at = [], 0
    for start, stop in spans:
        pieces += [text[at:start], head_and_tail(text[start:stop], most)]
        at = stop
    return "".join([*pieces, text[at:]])
