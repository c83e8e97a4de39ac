"""Lessons: limits learned from overflows. What an upstream serves beats what is written about it.

A lesson belongs to one (upstream, model), only lowers its limit, and expires. A reported number is believed when it
is at least LEAST, below the limit known so far, and not below a prompt that the upstream has accepted; a larger
prompt that is accepted later disproves the lesson. Only a number in an explicit refusal teaches: a stream that was
cut near the window does not.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from cachetools import LRUCache

from trimtab.limits.events import Event, Notify
from trimtab.limits.limit import Limit

LEAST = 256  # tokens; one server reported "maximum context length is 3 tokens"

_MOST_PAIRS = 4_096  # (upstream, model) pairs that are remembered: the names come from clients

_Pair = tuple[str, str]


class Lesson(msgspec.Struct, frozen=True):
    """The largest window, and the largest input, that an upstream reported, in tokens; None where it did not."""

    window: int | None = None
    input: int | None = None


def lesson_of(limit: Limit, accepted: int, reported: int) -> Lesson | None:
    """What a refusal that names `reported` tokens teaches about a model with `limit`, or None.

    `accepted` is the largest prompt the upstream has accepted, in tokens. A number that equals the window less the
    output cap is a cap on the input, not a smaller window.
    """
    if reported < LEAST or reported < accepted:
        return None
    if reported in (limit.max_input_tokens, limit.context_size - limit.max_output_tokens):
        known = limit.max_input_tokens or limit.context_size
        return Lesson(input=reported) if reported < known else None
    return Lesson(window=reported) if reported < limit.context_size else None


def lowest(one: Lesson, other: Lesson) -> Lesson:
    """The lower window and the lower input of two lessons."""
    return Lesson(_least(one.window, other.window), _least(one.input, other.input))


def disproved(lesson: Lesson, accepted: int) -> bool:
    """True when the upstream has accepted a prompt of `accepted` tokens that is larger than the lesson allows."""
    least = _least(lesson.window, lesson.input)
    return least is not None and accepted > least


def lowered(limit: Limit, lesson: Lesson) -> Limit:
    """`limit` with the lesson applied; the same object where the lesson is not lower."""
    window = _least(limit.context_size, lesson.window) or limit.context_size
    most = _least(limit.max_input_tokens, lesson.input)
    if most is not None and most >= window:
        most = None
    if (window, most) == (limit.context_size, limit.max_input_tokens):
        return limit
    return msgspec.structs.replace(
        limit,
        context_size=window,
        max_output_tokens=min(limit.max_output_tokens, window),
        max_input_tokens=most,
        source="learned",
        detail=f"from an overflow; {limit.source} {limit.context_size} ({limit.detail})",
        trusted=True,
    )


def _least(one: int | None, other: int | None) -> int | None:
    return min((n for n in (one, other) if n is not None), default=None)


class _Held(msgspec.Struct, frozen=True):
    lesson: Lesson
    until: float  # clock seconds


class Lessons:
    """The lessons of every (upstream, model), each for `ttl_s` seconds, and the largest prompt each has accepted."""

    def __init__(self, *, ttl_s: float, clock: Callable[[], float], notify: Notify) -> None:
        self.ttl_s = ttl_s
        self._clock, self._notify = clock, notify
        self._held: LRUCache[_Pair, _Held] = LRUCache(_MOST_PAIRS)
        self._accepted: LRUCache[_Pair, int] = LRUCache(_MOST_PAIRS)

    def of(self, upstream: str, model: str) -> Lesson | None:
        """The lesson in force, or None. Quick: it runs on every request."""
        held = self._held.get((upstream, model))
        return held.lesson if held and self._clock() < held.until else None

    def learn(self, upstream: str, model: str, limit: Limit, reported: int) -> bool:
        """Learn from a refusal that names `reported` tokens; `limit` is the one known so far. True when it is lower
        now. A contradiction with what an operator wrote is an event of its own."""
        lesson = lesson_of(limit, self._accepted.get((upstream, model), 0), reported)
        if lesson is None:
            self._notify(Event("learned_ignored", upstream, model))
            return False
        self._keep(upstream, model, lesson)
        written = limit.source in ("configured", "environment")
        self._notify(Event("learned_contradicts" if written else "learned", upstream, model))
        return True

    def note_accepted(self, upstream: str, model: str, tokens: int) -> bool:
        """Remember that the upstream accepted a prompt of `tokens`. True when that disproves a lesson."""
        pair = (upstream, model)
        if tokens > self._accepted.get(pair, 0):
            self._accepted[pair] = tokens
        lesson = self.of(upstream, model)
        if lesson is None or not disproved(lesson, tokens):
            return False
        del self._held[pair]
        self._notify(Event("learned_disproved", upstream, model))
        return True

    def dump(self, upstream: str, model: str) -> bytes:
        """The pair's lesson for other replicas; an empty one without a lesson."""
        return msgspec.json.encode(self.of(upstream, model) or Lesson())

    def merge(self, upstream: str, model: str, shared: bytes) -> None:
        """Take over another replica's lesson, unless this replica has seen it disproved. What is not a lesson is
        ignored."""
        try:
            theirs = msgspec.json.decode(shared, type=Lesson)
        except msgspec.DecodeError:
            return
        if theirs != Lesson() and not disproved(theirs, self._accepted.get((upstream, model), 0)):
            self._keep(upstream, model, theirs)

    def _keep(self, upstream: str, model: str, lesson: Lesson) -> None:
        before = self.of(upstream, model)
        merged = lowest(before, lesson) if before else lesson
        if merged != before:  # the same lesson read again from the store does not last longer
            self._held[upstream, model] = _Held(merged, self._clock() + self.ttl_s)
