"""What a name in the removed texts is worth, and in which order names are kept.

A name weighs more when the agent used it in a call of its own, when a user or the assistant wrote it, and when the
last text that has it is late. Where names stand close together one excerpt serves them all, so
close names come first. Pure, and the same in every process: nothing depends on the order of a set.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from operator import attrgetter

import msgspec

from trimtab.context.extract.names import names_among, place, words
from trimtab.context.extract.parts import Kind
from trimtab.context.extract.spans import SIDE

_CALLED = 4.0  # weight of a name the agent used in a call of its own, as a multiple
_WRITTEN = 2.5  # of one that a user or the assistant wrote
_OLD = 0.3  # weight of the oldest name, as a share of that of the newest
_HALVED = 40  # texts after which half of what a new name weighs more is gone
_NEAR = 0.5  # share of a neighbour's weight that counts for a name
_COST = 1.0  # exponent of an excerpt's length in what it costs


class Text(msgspec.Struct, gc=False):
    """A part of a removed message, as far as it is read."""

    index: int
    part: int
    kind: Kind
    text: str


class Name(msgspec.Struct, gc=False):
    """A name: the last text that has it, its place there, and its weight."""

    text: int
    start: int
    stop: int
    weight: float


def ranked(texts: Sequence[Text], stays: Iterable[str]) -> list[Name]:
    """The names in the texts by what an excerpt around each is worth for its length, its neighbours' weight included.
    Names that the texts which stay have too are left out."""
    worth: list[tuple[float, int, int, int, Name]] = []
    for t, names in enumerate(_by_text(texts, stays)):
        for k, name in enumerate(names):
            value = (name.weight + _NEAR * _beside(names, k)) / (name.stop - name.start + 2 * SIDE) ** _COST
            worth.append((-value, -t, name.start, name.stop, name))
    worth.sort(key=_order)
    return [name for *_, name in worth]


def _order(one: tuple[float, int, int, int, Name]) -> tuple[float, int, int, int]:
    return one[:4]


def _by_text(texts: Sequence[Text], stays: Iterable[str]) -> list[list[Name]]:
    """For each text the names of which it is the last, in the order of their places."""
    in_calls: dict[bytes, int] = {}  # word -> the last of the texts that have it
    elsewhere: dict[bytes, int] = {}
    for t, text in enumerate(texts):
        last = in_calls if text.kind == "call" else elsewhere
        for word in words(text.text):
            last[word] = t
    names = names_among(elsewhere | in_calls)
    called = {name for word, name in names.items() if word in in_calls}
    last_of: dict[str, int] = {}  # the same by name: a word may have signs at its edges
    for word, name in names.items():
        last_of[name] = max(last_of.get(name, 0), in_calls.get(word, 0), elsewhere.get(word, 0))
    by_text: list[list[Name]] = [[] for _ in texts]
    for name in last_of.keys() - names_among({word for text in stays for word in words(text)}).values():
        t = last_of[name]
        late = _OLD + (1 - _OLD) * math.exp2((t + 1 - len(texts)) / _HALVED)
        weight = _CALLED if name in called else 1 if texts[t].kind == "result" else _WRITTEN
        by_text[t].append(Name(t, *place(texts[t].text, name), late * weight))
    for here in by_text:
        here.sort(key=_start)
    return by_text


_start = attrgetter("start", "stop")


def _beside(found: Sequence[Name], k: int) -> float:
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
