"""Which excerpts of the removed messages are kept: the names that are likely to be needed again, each with the words
around it, as many as fit.

A name weighs more when the agent used it in a call of its own, when a user or the assistant wrote it, when several
messages have it, and when the last of them is late. It is cut from the last message that has it. Names that the
messages which stay have too are left out. Where names stand close together one excerpt serves them all, so close
names come first. Users' words get a share of their own, because they are few and nothing brings them back.

A pure function of the messages and the tokens it may take. The weights were found on recorded conversations:
docs/policy.md has the figures.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Sequence
from operator import attrgetter

import msgspec

from trimtab.context.edits import Excerpt
from trimtab.context.estimate.tokens import text_tokens
from trimtab.context.extract.names import mentions
from trimtab.context.extract.parts import Kind, Part, parts
from trimtab.context.extract.render import render
from trimtab.context.extract.spans import SIDE, Span, added, around, covers, length
from trimtab.context.read.memo import Memo
from trimtab.context.read.structure import Structure
from trimtab.context.read.views import digest
from trimtab.context.texts import NOTE

READ, READ_OF_RESULT = 50_000, 2_000
"""Characters read of one text, and of a tool result: what is deep inside a long one is rarely needed by name."""
READ_PER_TOKEN = 40
"""Characters read in all for each token of the extract, the newest messages first."""

_CALLED = 4.0  # weight of a name the agent used in a call of its own, as a multiple
_WRITTEN = 1.5  # of one that a user or the assistant wrote
_REPEATED = 0.25  # added for each doubling of the messages that have it
_OLD = 0.5  # weight of the oldest name, as a share of that of the newest
_HALVED = 40  # texts after which half of what a new name weighs more is gone
_NEAR = 0.5  # share of a neighbour's weight that counts for a name
_COST = 0.7  # exponent of an excerpt's length in what it costs

_USER_SHARE = 0.25  # of the tokens, for the words of users
_USER_CHARS = 160  # of one user message
_CHARS_PER_TOKEN = 2.9  # of excerpts, which are dense; the result is measured, this only says where to stop
_SOURCE = 12  # tokens of a line's title
# Sentences that say how things are to be done hold for the rest of the conversation.
_STANDING = re.compile(r"\b(?:always|never|must|only|instead|prefer|remember|decided|do not|don't)\b", re.IGNORECASE)


class _Text(msgspec.Struct, gc=False):
    """A part of a removed message, with the names in it."""

    index: int
    part: int
    kind: Kind
    chars: int
    names: array[int]


class _Name(msgspec.Struct, gc=False):
    """A name: the last text that has it, its place there, and what else is known of it."""

    text: int
    start: int
    stop: int
    texts: int = 0
    called: bool = False
    weight: float = 0.0


def choose(
    structure: Structure, removed: Sequence[int], shown: Sequence[int], tokens: int, memo: Memo
) -> tuple[tuple[Excerpt, ...], int]:
    """The excerpts of the messages `removed`, in the order of the history, and the tokens they come to as text, at
    most `tokens`. `shown`: messages that stay. The memo remembers the choice, which holds no text."""
    views = structure.views
    known = b"".join([views[i].digest for i in removed]) + b"-" + b"".join([views[i].digest for i in shown])
    key = (digest(array("L", removed).tobytes() + known), tokens, "extract")
    found: tuple[tuple[Excerpt, ...], int] | None = memo.get(key)
    if found is None:
        found = _choose(structure, removed, shown, tokens, memo)
        memo.put(key, found)
    return found


def _choose(
    structure: Structure, removed: Sequence[int], shown: Sequence[int], tokens: int, memo: Memo
) -> tuple[tuple[Excerpt, ...], int]:
    texts = _texts(structure, removed, tokens * READ_PER_TOKEN, memo)
    stays: set[int] = set()
    for text in _texts(structure, shown, tokens * READ_PER_TOKEN, memo):
        stays.update(text.names[::3])
    names = _weighed(texts, stays)
    spans: dict[int, list[Span]] = {}
    opened = _Opened(structure, texts)
    used = _keep_users_words(opened, spans, tokens * _USER_SHARE)
    for name in _ranked(names):
        if used >= tokens:
            break
        used += _keep(opened, spans, name)
    while True:
        excerpts = tuple(_excerpt(structure, texts[t], span) for t in sorted(spans) for span in spans[t])
        size = _tokens(render(structure.raws, excerpts))
        if size <= tokens:
            return excerpts, size
        for t in list(spans)[-max(1, len(spans) * (size - tokens) // size) :]:  # the last that were kept
            del spans[t]


def _tokens(extract: str) -> int:
    """What an extract adds to the note it stands below."""
    return text_tokens(f"{NOTE}\n\n{extract}") - text_tokens(NOTE) if extract else 0


class _Opened:
    """The characters of removed texts, read again where they are needed."""

    def __init__(self, structure: Structure, texts: Sequence[_Text]) -> None:
        self._structure, self._texts = structure, texts
        self._open: dict[int, list[Part]] = {}

    def kind(self, t: int) -> Kind:
        return self._texts[t].kind

    def users(self) -> list[int]:
        """Texts that users wrote, the newest first."""
        return [t for t in reversed(range(len(self._texts))) if self._texts[t].kind == "user"]

    def __getitem__(self, t: int) -> str:
        text = self._texts[t]
        if text.index not in self._open:
            self._open[text.index] = parts(self._structure.raws[text.index])
        return self._open[text.index][text.part].text


def _texts(structure: Structure, messages: Sequence[int], chars: int, memo: Memo) -> list[_Text]:
    """The newest texts of the messages, of about `chars` characters, and the newest that users wrote, of as many."""
    found: list[_Text] = []
    of_users = chars
    for i in reversed(messages):
        from_user = structure.views[i].role == "user"
        if (of_users if from_user else chars) <= 0:
            continue
        texts = _of_message(structure, i, memo)
        found += reversed(texts)
        read = sum([text.chars for text in texts])
        if from_user:
            of_users -= read
        else:
            chars -= read
    found.reverse()
    return found


def _of_message(structure: Structure, i: int, memo: Memo) -> list[_Text]:
    key = (structure.views[i].digest, "names")
    found: tuple[tuple[Kind, int, array[int]], ...] | None = memo.get(key)
    if found is None:
        read = [(p.kind, p.text[: READ_OF_RESULT if p.kind == "result" else READ]) for p in parts(structure.raws[i])]
        found = tuple([(kind, len(text), mentions(text)) for kind, text in read])
        memo.put(key, found, 1 + sum([len(names) for _, _, names in found]) // 64)
    return [_Text(i, part, kind, chars, names) for part, (kind, chars, names) in enumerate(found) if chars]


def _weighed(texts: Sequence[_Text], stays: set[int]) -> list[_Name]:
    names: dict[int, _Name] = {}
    for t, text in enumerate(texts):
        called = text.kind == "call"
        numbers = iter(text.names)
        for value, start, stop in zip(numbers, numbers, numbers, strict=True):
            if value in stays:
                continue
            if (name := names.get(value)) is None:
                names[value] = _Name(t, start, stop, 1, called)
                continue
            name.text, name.start, name.stop = t, start, stop
            name.texts += 1
            name.called = name.called or called
    newest = len(texts) - 1
    for name in names.values():
        name.weight = _weight(name, texts[name.text].kind, newest - name.text)
    return list(names.values())


def _weight(name: _Name, kind: Kind, age: int) -> float:
    source = _CALLED if name.called else _WRITTEN if kind in ("user", "assistant") else 1.0
    repeated = 1 if name.texts == 1 else 1 + _REPEATED * math.log2(name.texts)
    return source * repeated * (_OLD + (1 - _OLD) * math.exp2(-age / _HALVED))


def _ranked(names: Sequence[_Name]) -> list[_Name]:
    """The names by what an excerpt around each is worth for its length, its neighbours' weight included."""
    by_text: dict[int, list[_Name]] = {}
    for name in names:
        by_text.setdefault(name.text, []).append(name)
    worth: list[tuple[float, int, int]] = []
    found: list[_Name] = []
    for t, of_text in by_text.items():
        of_text.sort(key=_start)
        for k, name in enumerate(of_text):
            value = name.weight + _NEAR * _beside(of_text, k)
            worth.append((-value / (name.stop - name.start + 2 * SIDE) ** _COST, -t, len(found)))
            found.append(name)
    worth.sort()
    return [found[k] for _, _, k in worth]


_start = attrgetter("start")


def _beside(found: Sequence[_Name], k: int) -> float:
    """Weight of the names that the excerpt around name k holds too."""
    first, last = found[k].start - SIDE, found[k].stop + SIDE
    total, j = 0.0, k - 1
    while j >= 0 and found[j].start >= first:
        total += found[j].weight
        j -= 1
    j = k + 1
    while j < len(found) and found[j].stop <= last:
        total += found[j].weight
        j += 1
    return total


def _keep(opened: _Opened, spans: dict[int, list[Span]], name: _Name) -> float:
    """Keep the excerpt around a name; what it adds, in tokens."""
    before = spans.get(name.text, [])
    if covers(before, name.start, name.stop):
        return 0.0
    after = added(before, around(opened[name.text], name.start, name.stop))
    spans[name.text] = after
    title = 0 if before else _SOURCE
    return (length(after) - length(before)) / _CHARS_PER_TOKEN + len(after) - len(before) + title


def _keep_users_words(opened: _Opened, spans: dict[int, list[Span]], room: float) -> float:
    """Keep the beginning of what users wrote, or the sentence that says how things are to be done: those with such
    a sentence first, then the newest. The tokens used, at most `room`."""
    found = [(t, *_words(opened[t])) for t in opened.users()]
    used = 0.0
    for t, span, _ in sorted(found, key=lambda one: not one[2]):
        cost = (span[1] - span[0]) / _CHARS_PER_TOKEN + 2
        if used + cost <= room and span[1] > span[0]:
            spans[t] = [span]
            used += cost
    return used


def _words(text: str) -> tuple[Span, bool]:
    """The span to keep of what a user wrote, and whether it is a standing instruction."""
    standing = _STANDING.search(text, 0, READ)
    if standing is None or standing.start() < _USER_CHARS // 2:
        return _beginning(text, 0), standing is not None
    begins = [text.rfind(mark, 0, standing.start()) for mark in (". ", "\n", "! ", "? ")]
    return _beginning(text, max(*begins, standing.start() - _USER_CHARS // 2 - 1, -1) + 1), True


def _beginning(text: str, start: int) -> Span:
    stop = start + _USER_CHARS
    if stop >= len(text):
        return start, len(text)
    blank = text.rfind(" ", start, stop)
    return start, blank if blank > start else stop


def _excerpt(structure: Structure, text: _Text, span: Span) -> Excerpt:
    return Excerpt(text.index, text.part, *span, call=_call_of(structure, text))


def _call_of(structure: Structure, text: _Text) -> tuple[int, int] | None:
    """Where the call is that a result answers, or that the text was given to: message and part."""
    if text.kind == "call":
        return text.index, text.part
    caller, answers = structure.caller_of[text.index], structure.views[text.index].answers
    if text.kind != "result" or caller == text.index:
        return None
    return next(((caller, k + 1) for k, call in enumerate(structure.views[caller].calls) if call.id == answers), None)
