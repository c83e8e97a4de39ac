"""The structure of a history: units and turns, and so the places where it may be cut.

A unit is a message, or an assistant message with the results of its tool calls that follow it. Where a format has an
answer of the model in pieces, an assistant message is all of its pieces, one after the other: a run. A turn starts at a
user message and runs to the next. Results are paired by position, not by id alone: providers reuse ids, so a result
belongs to the nearest assistant message before it that declares its id. A late result, one that comes after other
messages, is a unit of its own (what was cut before it came must not change); it goes and stays with its call.

System messages before the first answer stay. One that comes later is a reminder: many agents add one in each turn, so
it goes with what is around it. The newest stays, and what has an unknown form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec import Raw

from trimtab.context.read.views import Call, View

SYSTEM_ROLES = ("system", "developer")
REMINDER = "reminder"
"""The role of a unit that is a system message within the conversation."""


class Unit(msgspec.Struct, frozen=True, gc=False):
    """Messages [start, stop) that stay or go together. `turn` counts user messages up to here."""

    start: int
    stop: int
    turn: int
    role: str  # of its first message, or REMINDER


class Structure(msgspec.Struct, frozen=True):
    """A history cut into units. Messages and units are named by their index."""

    raws: Sequence[bytes | Raw] = ()
    views: Sequence[View] = ()
    units: Sequence[Unit] = ()
    unit_of: Sequence[int] = ()  # by message
    caller_of: Sequence[int] = ()  # by message: see `callers`
    home_of: Sequence[int] = ()  # by message: see `homes`
    late_results: Mapping[int, Sequence[int]] = {}  # by the first message of the unit that made the call
    task: Sequence[int] = ()  # messages: see `_task`
    prefill: Sequence[int] = ()  # message: see `_prefill`
    first_unit: int = 0  # the first that is not a system message
    declared: dict[str, int] = {}  # call id -> the last assistant message that declares it

    def is_follower(self, i: int) -> bool:
        """True when message i goes on with the one before it, and is no result."""
        return self.home_of[i] != i and self.caller_of[i] == i

    def is_fixed(self, i: int) -> bool:
        """True for a system message that is not a reminder."""
        return self.units[self.unit_of[i]].role in SYSTEM_ROLES

    def tool_of(self, result: int) -> str:
        """Name of the tool whose result message `result` is; "" when its call is unknown."""
        call = self.call_of(result)
        return call.name if call else ""

    def call_of(self, result: int) -> Call | None:
        """The call whose result message `result` is; None when it is unknown."""
        answers = self.views[result].answers
        for call in self.views[self.caller_of[result]].calls:
            if call.id == answers:
                return call
        return None


EMPTY = Structure()


def structure(raws: Sequence[bytes | Raw], views: Sequence[View], known: Structure = EMPTY) -> Structure:
    """Cut a history. `known`: the structure of a beginning of it that ends at a boundary (see `boundaries`). It is not
    cut again but grows into the one that is returned, and is not to be used any more. Linear in the number of the other
    messages."""
    start = len(known.views)
    declared, late = dict(known.declared) if known is EMPTY else known.declared, dict(known.late_results)
    without_homes = known.home_of is known.caller_of
    caller_of = _grown(known.caller_of, callers(views, start, declared))
    home_of = homes(views, caller_of, None if without_homes else known.home_of, start)
    new = units(views, home_of, known.units)
    unit_of = _grown(known.unit_of, [])
    for u, unit in enumerate(new, len(known.units)):
        unit_of += [u] * (unit.stop - unit.start)
    found = _grown(known.units, new)
    first = next((u for u, unit in enumerate(found) if unit.role not in SYSTEM_ROLES), len(found))
    for home, results in late_results(new, home_of).items():
        late[home] = [*late.get(home, ()), *results]
    task, prefill = _task(found), _prefill(views)
    return Structure(raws, views, found, unit_of, caller_of, home_of, late, task, prefill, first, declared)


Item = TypeVar("Item")


def _grown(known: Sequence[Item], new: list[Item]) -> list[Item]:
    """A list with more at its end; a copy of what is no list."""
    grown = known if isinstance(known, list) else [*known]
    grown += new
    return grown


def _task(units: Sequence[Unit]) -> list[int]:
    """The user messages before the model first answers them. Agents put what surrounds the task (an environment, a
    reminder) into user messages of their own, before the task or after it."""
    task: list[int] = []
    for unit in units:
        if unit.role == "user":
            task.append(unit.start)
        elif task and unit.role not in (*SYSTEM_ROLES, REMINDER):
            break
    return task


def _prefill(views: Sequence[View]) -> list[int]:
    """A plain assistant message at the very end: the beginning of an answer, which the model is to continue."""
    return [len(views) - 1] if views and views[-1].role == "assistant" and not views[-1].calls else []


def answers_before(units: Sequence[Unit], views: Sequence[View]) -> dict[int, int]:
    """For each user message (a unit) the last plain answer between it and the user message before it, if there is
    one. A strict chat template reads just these, and wants them to alternate."""
    found: dict[int, int] = {}
    answer = None
    for u, unit in enumerate(units):
        if unit.role == "user":
            if answer is not None:
                found[u] = answer
            answer = None
        elif unit.role == "assistant" and not any([view.calls for view in views[unit.start : unit.stop]]):
            answer = u
    return found


def callers(views: Sequence[View], start: int = 0, declared: dict[str, int] | None = None) -> list[int]:
    """For each message from `start` on the index of the assistant message whose call it answers; its own index if it
    answers none. `declared`: the nearest assistant message before `start` that declares a call id; it is kept up."""
    declared = {} if declared is None else declared
    found: list[int] = []
    for i, view in enumerate(views[start:] if start else views, start):
        found.append(i if view.answers is None else declared.get(view.answers, i))
        if view.role == "assistant":
            for call in view.calls:
                declared[call.id] = i
    return found


def homes(
    views: Sequence[View], caller_of: Sequence[int], known: Sequence[int] | None = None, start: int = 0
) -> Sequence[int]:
    """For each message the index of the first message of what it belongs to: the run it is in, the call it answers, the
    message that it follows; its own index where it begins something. `known`: those before message `start`, which grow;
    None where they are their callers."""
    if known is None and not any([view.follows for view in views[start:]]):
        return caller_of
    found = [*caller_of[:start]] if known is None else _grown(known, [])
    for i, view in enumerate(views[start:], start):
        follows = view.follows and i and (view.role != "assistant" or views[i - 1].role == "assistant")
        if follows:
            found.append(found[i - 1])
        else:
            found.append(i if caller_of[i] == i else found[caller_of[i]])
    return found


def units(views: Sequence[View], home_of: Sequence[int] | None = None, known: Sequence[Unit] = ()) -> list[Unit]:
    """Cut what follows the `known` units of a history into units, in order and without a gap."""
    out: list[Unit] = []
    turn, start = (known[-1].turn, known[-1].stop) if known else (0, 0)
    # True once something else than system and user messages has come; what ends at a boundary may end before that.
    is_answered = any(unit.role not in (*SYSTEM_ROLES, "user", REMINDER) for unit in known)
    home_of = homes(views, callers(views)) if home_of is None else home_of
    for stop in range(start + 1, len(views) + 1):
        if stop < len(views) and home_of[stop] == start:
            continue
        role = views[start].role
        turn += role == "user"
        if role in SYSTEM_ROLES:
            role = REMINDER if is_answered and views[start].shape != "opaque" else role
        else:
            is_answered = is_answered or role != "user"
        out.append(Unit(start, stop, turn, role))
        start = stop
    return out


def late_results(units: Sequence[Unit], home_of: Sequence[int]) -> dict[int, list[int]]:
    """The results that stand outside the unit of their call, by the first message of that unit."""
    late: dict[int, list[int]] = {}
    for unit in units:
        home = home_of[unit.start]
        if home != unit.start:
            late.setdefault(home, []).append(unit.start)
    return late


def boundaries(views: Sequence[View], start: int = 0) -> list[int]:
    """The lengths, above `start`, of all prefixes that once were a request: those that end before an assistant message
    (before a run of them where one follows the other), and the whole history."""
    found = [i for i, view in enumerate(views[start:] if start else views, start) if view.role == "assistant"]
    return [i for i in found if i > start and is_boundary(views, i)] + [len(views)]


def is_boundary(views: Sequence[View], end: int) -> bool:
    """True when the first `end` messages of a longer history once were a request."""
    view = views[end]
    return end > 0 and view.role == "assistant" and (not view.follows or views[end - 1].role != "assistant")
