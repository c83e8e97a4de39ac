"""Lessons: limits learned from overflows. What an upstream serves now beats what is written, listed or was once taken.

A lesson belongs to one (upstream, model, route) and only lowers the limit. It first holds for the tenant that got the
overflow. It holds for all tenants, and for other replicas, after it was *agreed*: the upstream counted what was sent,
or a listing states the same number, or a second tenant was refused at it too. So no tenant's error alone binds another.

A lesson ends when its time is over, when a larger prompt is accepted, or when the upstream lists a larger window. Now
and then a larger request is let through to find out. Only an explicit refusal teaches: a stream that was cut near the
window does not. A refusal without numbers teaches, where a smaller request was then accepted, a *provisional* lesson:
it shapes and does not refuse.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import msgspec
from lru import LRU

from trimtab.limits.events import Event, Notify
from trimtab.limits.lesson import LEAST, Lesson, bound, disproved, lesson_of, lowered, lowest
from trimtab.limits.limit import Limit

_MOST_PAIRS = 4_096  # (upstream, model, route) that are remembered: the names come from clients
_MOST_TENANTS = 256  # of one of them
_MOST_OWN = 32_768  # lessons of tenants, of all of them: 500 bytes each

_Key = tuple[str, str, bytes]


class Caller(msgspec.Struct, frozen=True):
    """Who is served, and how: a digest of the tenant's credential, and what the request's body chooses of the
    upstream's routes. Empty: no credential, no choice."""

    tenant: bytes = b""
    route: bytes = b""


ANYONE = Caller()


class _Shared(Lesson, frozen=True):
    """A lesson in the store. `at` is when it was learned, in seconds since 1970: the clock that replicas share."""

    at: float = 0.0


class _Held(msgspec.Struct):
    """One lesson in force. Times are clock seconds, `at` alone is in seconds since 1970."""

    lesson: Lesson
    at: float
    since: float
    until: float
    pause: float  # after which a larger request is let through
    retry: float = 0.0


class Lessons:
    """The lessons of every (upstream, model, route), each for `ttl_s` seconds. A larger request is let through after
    `retry_s` seconds, then after twice as long. `wall` gives seconds since 1970."""

    def __init__(
        self,
        *,
        ttl_s: float,
        clock: Callable[[], float],
        notify: Notify,
        retry_s: float = 600.0,
        wall: Callable[[], float] = time.time,
        most: int = _MOST_OWN,
    ) -> None:
        """`most`: lessons of tenants, of all of them."""
        self.ttl_s, self._retry_s, self._most = ttl_s, retry_s, most
        self._clock, self._notify, self._wall = clock, notify, wall
        self._held: LRU[_Key, _Held] = LRU(_MOST_PAIRS)  # for all tenants
        self._own: LRU[_Key, LRU[bytes, _Held]] = LRU(_MOST_PAIRS)  # by tenant
        self._accepted: LRU[_Key, tuple[int, float]] = LRU(_MOST_PAIRS)  # tokens, and when (`wall`)
        self._listed: LRU[_Key, Lesson] = LRU(_MOST_PAIRS)  # lessons that a listing ended once

    @property
    def any(self) -> bool:
        """True when there are lessons, of anyone about any model."""
        return bool(self._held or self._own)

    def of(self, upstream: str, model: str, caller: Caller = ANYONE) -> Lesson | None:
        """The lesson in force for `caller`, or None. Quick: it runs on every request."""
        if not self.any:
            return None
        lesson: Lesson | None = None
        for held in self._in_force((upstream, model, caller.route), caller.tenant):
            lesson = lowest(lesson, held.lesson) if lesson else held.lesson
        return lesson

    def learn(
        self,
        upstream: str,
        model: str,
        limit: Limit,
        reported: int,
        caller: Caller = ANYONE,
        *,
        agreed: bool = False,
    ) -> bool:
        """Learn from a refusal of what `caller` sent that names `reported` tokens; `limit` is the one without lessons.
        `agreed`: the number may bind all tenants. True when all are bound by it now. A contradiction with what an
        operator wrote is an event of its own."""
        lesson = lesson_of(limit, reported)
        if lesson is None:
            self._notify(Event("learned_ignored", upstream, model))
            return False
        return self._learned(upstream, model, limit, lesson, caller, agreed=agreed)

    def learn_refused(self, upstream: str, model: str, limit: Limit, tokens: int, caller: Caller) -> bool:
        """Learn from a refusal without a number, after which a request of at most `tokens` of input was accepted. True
        when all tenants are bound by it now."""
        lesson = Lesson(input=tokens, provisional=True)
        if tokens < LEAST or lowered(limit, lesson) is limit:
            return False
        return self._learned(upstream, model, limit, lesson, caller, agreed=False)

    def note_accepted(self, upstream: str, model: str, tokens: int, caller: Caller = ANYONE) -> bool:
        """Remember that the upstream accepted a prompt of `tokens`. It ends the tenant's own lesson and the shared
        one, where they allow less; True for the shared one."""
        key = (upstream, model, caller.route)
        if tokens >= self._accepted.get(key, (0, 0.0))[0]:
            self._accepted[key] = (tokens, self._wall())
        if not (self._held or self._own):
            return False
        return self._end(key, caller.tenant, lambda held: disproved(held.lesson, tokens))

    def note_listed(self, upstream: str, model: str, window: int, found_at: float, caller: Caller = ANYONE) -> bool:
        """End the lessons that are older than the upstream's listing (`found_at`, clock seconds) of a larger `window`.
        Once for each lesson: one that is learned again knows better than a listing that stays the same. True for the
        shared one."""
        key = (upstream, model, caller.route)
        before, older = self._listed.get(key), (h for h in self._in_force(key, caller.tenant) if h.since < found_at)
        ended = [held.lesson for held in older if window > bound(held.lesson) and held.lesson != before]
        if not ended:
            return False
        self._listed[key] = min(ended, key=bound)
        return self._end(key, caller.tenant, lambda held: held.lesson in ended and held.since < found_at)

    def may_try_larger(self, upstream: str, model: str, caller: Caller = ANYONE) -> bool:
        """True, now and then, when a request that the lesson would shape may be sent to see whether it still holds."""
        held = list(self._in_force((upstream, model, caller.route), caller.tenant))
        now = self._clock()
        if not held or any(now < one.retry for one in held):
            return False
        for one in held:
            one.pause *= 2
            one.retry = now + one.pause
        return True

    def dump(self, upstream: str, model: str) -> bytes:
        """The lesson that holds for all tenants, for other replicas; an empty one without a lesson."""
        held = self._held.get((upstream, model, ANYONE.route))
        if held is None or self._clock() >= held.until:
            return msgspec.json.encode(_Shared())
        lesson = held.lesson
        return msgspec.json.encode(_Shared(lesson.window, lesson.input, lesson.provisional, held.at))

    def merge(self, upstream: str, model: str, shared: bytes) -> None:
        """Take over another replica's lesson, unless this replica has seen it disproved since. What is not a lesson is
        ignored."""
        try:
            theirs = msgspec.json.decode(shared, type=_Shared)
        except msgspec.DecodeError:
            return
        lesson, key = Lesson(theirs.window, theirs.input, theirs.provisional), (upstream, model, ANYONE.route)
        tokens, when = self._accepted.get(key, (0, 0.0))
        if lesson == Lesson() or (disproved(lesson, tokens) and when >= theirs.at):
            return
        before = self._held.get(key)
        if before is None or self._clock() >= before.until or before.at < theirs.at:
            self._held[key] = self._new(lesson, theirs.at, before)

    def _learned(
        self, upstream: str, model: str, limit: Limit, lesson: Lesson, caller: Caller, *, agreed: bool
    ) -> bool:
        key = (upstream, model, caller.route)
        own = self._own.setdefault(key, LRU(_MOST_TENANTS))
        own[caller.tenant] = self._new(lesson, self._wall(), own.get(caller.tenant))
        while sum(map(len, self._own.values())) > self._most:
            self._own.popitem()  # the one used least lately
        common = lesson if agreed else self._common(own, caller.tenant, lesson)
        if common is not None:
            self._held[key] = self._new(common, self._wall(), self._held.get(key))
        written = limit.source in ("configured", "environment")
        self._notify(Event("learned_contradicts" if written else "learned", upstream, model))
        return common is not None

    def _common(self, own: LRU[bytes, _Held], tenant: bytes, lesson: Lesson) -> Lesson | None:
        """What two tenants agree on: who was refused at less was told of no more than the other. The larger of the
        newest lesson and the one nearest to it."""
        now = self._clock()
        others = [held.lesson for name, held in own.items() if name != tenant and now < held.until]
        nearest = min(others, key=lambda other: abs(bound(other) - bound(lesson)), default=None)
        return None if nearest is None else max(lesson, nearest, key=bound)

    def _new(self, lesson: Lesson, at: float, before: _Held | None) -> _Held:
        """A lesson that begins now. One that is learned again is tried less often."""
        now = self._clock()
        pause = before.pause if before is not None and before.lesson == lesson else self._retry_s
        return _Held(lesson, at, now, now + self.ttl_s, min(pause, self.ttl_s), now + min(pause, self.ttl_s))

    def _in_force(self, key: _Key, tenant: bytes) -> Iterator[_Held]:
        own = self._own.get(key)
        for held in (self._held.get(key), own.get(tenant) if own is not None else None):
            if held is not None and self._clock() < held.until:
                yield held

    def _end(self, key: _Key, tenant: bytes, ends: Callable[[_Held], bool]) -> bool:
        """End the lessons of which `ends` is true. True for the one that all tenants share."""
        shared, own = self._held.get(key), self._own.get(key)
        mine = own.get(tenant) if own is not None else None
        end_shared, end_own = shared is not None and ends(shared), mine is not None and ends(mine)
        if end_shared:
            del self._held[key]
        if end_own and own is not None:
            del own[tenant]
        if end_shared or end_own:
            self._notify(Event("learned_disproved", key[0], key[1]))
        return end_shared
