"""Which excerpts of the removed messages are kept: what users said, and the names that are likely to be needed again,
each with the words around it, as many as fit.

Users' words get a share of their own, because they are few and nothing brings them back. The order of the names is
that of `weigh`. A pure function of the messages and the tokens it may take; it reads no more than it may bring back
some times over, the newest messages first. The figures were found on recorded conversations: docs/policy.md has them.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from trimtab.context.edits import Excerpt
from trimtab.context.estimate.tokens import text_tokens
from trimtab.context.extract.parts import Kind, Opened
from trimtab.context.extract.render import render
from trimtab.context.extract.spans import Span, add, around, covers
from trimtab.context.extract.weigh import Name, Text, ranked
from trimtab.context.read.memo import Memo
from trimtab.context.read.structure import Structure
from trimtab.context.read.views import digest
from trimtab.context.texts import NOTE

READ: Final[dict[Kind, int]] = {"call": 50_000, "assistant": 8_000, "user": 8_000, "result": 1_200}
"""Characters read of one text: what is deep inside a long one is rarely needed by name, unless the agent wrote it into
a file."""
LEAST_READ = 20_000
"""Characters read in all of each kind of text, however short the extract,"""
READ_PER_TOKEN: Final[dict[str, int]] = {"call": 8, "assistant": 1, "user": 1, "result": 1}
"""and more for each of its tokens: what the agent used itself is worth most."""

_USER_SHARE = 0.25  # of the tokens, for the words of users
_USER_CHARS = 160  # of one user message
_USER_READ = 2_000  # characters of one that are searched for an instruction
_CHARS_PER_TOKEN = 2.9  # of excerpts, which are dense; the result is measured, this only says where to stop
_SOURCE = 12  # tokens of a line's title
# Sentences that say how things are to be done hold for the rest of the conversation.
_STANDING = ("always ", "never ", "must ", "only ", "instead", "prefer", "remember ", "decided ", "do not ", "don't ")

_Chosen = tuple[tuple[Excerpt, ...], int]


class _Kept(msgspec.Struct):
    """What is kept so far: spans by text, in the order in which the texts were first kept, and their tokens."""

    spans: dict[int, list[Span]] = {}
    tokens: float = 0.0


def choose(structure: Structure, removed: Sequence[int], shown: Sequence[int], tokens: int, memo: Memo) -> _Chosen:
    """The excerpts of the messages `removed`, in the order of the history, and the tokens they come to as text, at
    most `tokens`. `shown`: messages that stay. The memo remembers the choice, which holds no text."""
    views = structure.views
    known = b"".join([views[i].digest for i in removed]) + b"-" + b"".join([views[i].digest for i in shown])
    key = (digest(array("L", removed).tobytes() + known), tokens, "extract")
    found: _Chosen | None = memo.get(key)
    if found is None:
        found = _choose(structure, removed, shown, tokens)
        memo.put(key, found, 1 + len(found[0]) // 3)
    return found


def _choose(structure: Structure, removed: Sequence[int], shown: Sequence[int], tokens: int) -> _Chosen:
    opened = Opened(structure.raws)
    texts = [*_texts(structure, opened, removed, tokens)][::-1]
    names = ranked(texts, [text.text for text in _texts(structure, opened, shown, tokens)])
    kept = _Kept()
    _keep_users_words(texts, kept, tokens * _USER_SHARE)
    for name in names:
        if kept.tokens >= tokens:
            break
        _keep(texts[name.text], kept, name)
    return _that_fit(structure, opened, texts, kept.spans, tokens)


def _that_fit(
    structure: Structure, opened: Opened, texts: Sequence[Text], spans: dict[int, list[Span]], tokens: int
) -> _Chosen:
    """The excerpts and their true size; where it is above `tokens`, without the texts that were kept last."""
    while True:
        excerpts = tuple([_excerpt(structure, texts[t], span) for t in sorted(spans) for span in spans[t]])
        size = _tokens(render(opened, excerpts))
        if size <= tokens:
            return excerpts, size
        for t in list(spans)[-max(1, len(spans) * (size - tokens) // size) :]:
            del spans[t]


def _tokens(extract: str) -> int:
    """What an extract adds to the note it stands below."""
    return text_tokens(f"{NOTE}\n\n{extract}") - text_tokens(NOTE) if extract else 0


def _texts(structure: Structure, opened: Opened, messages: Sequence[int], tokens: int) -> Iterator[Text]:
    """The newest texts of each kind, of about so many characters as the extract's `tokens` make worth reading; the
    newest first."""
    room = {kind: LEAST_READ + tokens * chars for kind, chars in READ_PER_TOKEN.items()}
    for i in reversed(messages):
        view = structure.views[i]
        kind = "result" if view.is_result else view.role
        if room.get(kind, 0) <= 0 and (view.is_result or not view.calls or room["call"] <= 0):
            continue
        parts = opened.parts(i)
        for number in reversed(range(len(parts))):
            part = parts[number]
            text = part.text[: READ[part.kind]]
            if text and room[part.kind] > 0:
                room[part.kind] -= len(text)
                yield Text(i, number, part.kind, text)


def _keep(text: Text, kept: _Kept, name: Name) -> None:
    """Keep the excerpt around a name."""
    spans = kept.spans.get(name.text)
    if spans is None:
        spans = kept.spans[name.text] = []
        kept.tokens += _SOURCE
    if not covers(spans, name.start, name.stop):
        before = len(spans)
        kept.tokens += add(spans, around(text.text, name.start, name.stop)) / _CHARS_PER_TOKEN + len(spans) - before


def _keep_users_words(texts: Sequence[Text], kept: _Kept, room: float) -> None:
    """Keep the beginning of what users wrote, or the sentence that says how things are to be done: those with such
    a sentence first, then the newest. At most `room` tokens."""
    found = [(t, *_words(texts[t].text)) for t in reversed(range(len(texts))) if texts[t].kind == "user"]
    for t, span, _ in sorted(found, key=lambda one: not one[2]):
        cost = (span[1] - span[0]) / _CHARS_PER_TOKEN + 2
        if kept.tokens + cost <= room and span[1] > span[0]:
            kept.spans[t] = [span]
            kept.tokens += cost


def _words(text: str) -> tuple[Span, bool]:
    """The span to keep of what a user wrote, and whether it is a standing instruction."""
    lower = text[:_USER_READ].lower()
    standing = min([at for word in _STANDING if (at := lower.find(word)) >= 0], default=-1)
    if standing < _USER_CHARS // 2:
        return _beginning(text, 0), standing >= 0
    begins = [text.rfind(mark, 0, standing) for mark in (". ", "\n", "! ", "? ")]
    return _beginning(text, max(*begins, standing - _USER_CHARS // 2 - 1, -1) + 1), True


def _beginning(text: str, start: int) -> Span:
    stop = start + _USER_CHARS
    if stop >= len(text):
        return start, len(text)
    blank = text.rfind(" ", start, stop)
    return start, blank if blank > start else stop


def _excerpt(structure: Structure, text: Text, span: Span) -> Excerpt:
    return Excerpt(text.index, text.part, *span, call=_call_of(structure, text))


def _call_of(structure: Structure, text: Text) -> tuple[int, int] | None:
    """Where the call is that a result answers, or that the text was given to: message and part."""
    if text.kind == "call":
        return text.index, text.part
    caller, answers = structure.caller_of[text.index], structure.views[text.index].answers
    if text.kind != "result" or caller == text.index:
        return None
    return next(((caller, k + 1) for k, call in enumerate(structure.views[caller].calls) if call.id == answers), None)
