"""Where a history may be cut: units, late results, turns, boundaries."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings

from tests.context.histories import histories
from tests.support.messages import assistant, calls, result, system, user
from trimtab.context.read.memo import Memo
from trimtab.context.read.structure import EMPTY, Structure, boundaries, callers, late_results, structure, units
from trimtab.context.read.views import Call, View


def views(*raws: bytes) -> list[View]:
    return Memo().views(raws)


FUNCTION_CALL = b'{"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{}"}}'
FUNCTION = b'{"role": "function", "name": "f", "content": "1"}'

CUTS: dict[str, tuple[list[bytes], list[tuple[int, int]]]] = {
    "plain messages": ([system(), user(), assistant(), user()], [(0, 1), (1, 2), (2, 3), (3, 4)]),
    "a cycle": ([user(), calls("a"), result("a"), assistant()], [(0, 1), (1, 3), (3, 4)]),
    "parallel calls": ([calls("a", "b"), result("a"), result("b"), user()], [(0, 3), (3, 4)]),
    "parallel results out of order": ([calls("a", "b"), result("b"), result("a")], [(0, 3)]),
    "an id used again": ([calls("a"), result("a"), calls("a"), result("a")], [(0, 2), (2, 4)]),
    "a call without result": ([calls("a"), user(), assistant()], [(0, 1), (1, 2), (2, 3)]),
    "a result without call": ([user(), result("x"), user()], [(0, 1), (1, 2), (2, 3)]),
    "a result given twice": ([calls("a"), result("a"), result("a")], [(0, 3)]),
    "a result after a user message": ([calls("a"), user(), result("a")], [(0, 1), (1, 2), (2, 3)]),
    "two callers, then their results": (
        [calls("a"), calls("b"), result("a"), result("b")],
        [(0, 1), (1, 2), (2, 3), (3, 4)],
    ),
    "functions": ([FUNCTION_CALL, FUNCTION, FUNCTION_CALL, FUNCTION], [(0, 2), (2, 4)]),
    "calls without ids": ([calls("", ""), result(""), result("")], [(0, 3)]),
    "a user message that declares calls": ([user(tool_calls=[{"id": "a"}]), result("a")], [(0, 1), (1, 2)]),
    "nothing": ([], []),
}


@pytest.mark.parametrize(("raws", "expected"), CUTS.values(), ids=CUTS)
def test_units(raws: list[bytes], expected: list[tuple[int, int]]) -> None:
    assert [(u.start, u.stop) for u in units(views(*raws))] == expected


def test_a_late_result_knows_its_call() -> None:
    found = views(calls("a", "b"), result("a"), user(), assistant(), result("b"), result("x"))
    assert callers(found) == [0, 0, 2, 3, 0, 5]
    assert late_results(units(found), callers(found)) == {0: [4]}


def test_the_nearest_caller_before_a_result_is_its_home() -> None:
    assert callers(views(calls("a"), calls("a"), result("a"), calls("a"))) == [0, 1, 1, 3]


def test_a_turn_starts_at_each_user_message() -> None:
    found = units(views(system(), assistant(), user(), calls("a"), result("a"), user(), user(), assistant()))
    assert [(u.turn, u.role) for u in found] == [
        (0, "system"),
        (0, "assistant"),
        (1, "user"),
        (1, "assistant"),
        (2, "user"),
        (3, "user"),
        (3, "assistant"),
    ]


def test_boundaries_are_what_was_once_sent() -> None:
    assert boundaries(views(assistant(), user(), calls("a"), result("a"), assistant(), user())) == [2, 4, 6]
    assert boundaries([]) == [0]


@settings(max_examples=60, deadline=None)
@given(histories)
def test_units_cover_the_history_without_a_gap(raws: list[bytes]) -> None:
    found = units(views(*raws))
    assert [u.start for u in found] == [0, *(u.stop for u in found[:-1])][: len(found)]
    assert found[-1].stop == len(raws)


@settings(max_examples=60, deadline=None)
@given(histories)
def test_what_was_cut_before_a_boundary_is_cut_the_same_ever_after(raws: list[bytes]) -> None:
    found = views(*raws)
    whole = units(found)
    for end in boundaries(found):
        assert units(found[:end]) == [u for u in whole if u.start < end]


# -- formats whose answers come in pieces -------------------------------------------------------------------------


def piece(role: str = "assistant", *ids: str, answers: str | None = None, follows: bool = True) -> View:
    return View(role, 10, calls=tuple(Call(id, "f") for id in ids), answers=answers, follows=follows)


RUN = [
    View("user", 10),
    piece(),  # thinking, and two calls
    piece("assistant", "a"),
    piece("assistant", "b"),
    View("tool", 10, answers="a"),
    View("tool", 10, answers="b"),
    piece("context"),
    piece("assistant", "c"),  # the next answer, without thinking
    View("tool", 10, answers="c"),
    View("user", 10),
]


def test_a_run_of_pieces_and_their_results_are_one_unit() -> None:
    assert [(unit.start, unit.stop) for unit in units(RUN)] == [(0, 1), (1, 7), (7, 9), (9, 10)]


def test_only_the_head_of_a_run_is_a_boundary() -> None:
    assert boundaries(RUN) == [1, 7, 10]


def test_a_result_knows_the_piece_that_called_it() -> None:
    found = structure([b""] * len(RUN), RUN)
    assert list(found.caller_of[4:6]) == [2, 3]
    assert [found.is_follower(i) for i in range(8)] == [False, False, True, True, False, False, True, False]


def test_the_task_is_the_first_run_of_user_messages() -> None:
    raws = [system(), user("Where you are."), user("The task."), assistant(), user("Next.")]
    assert structure(raws, views(*raws)).task == [1, 2]


def test_a_structure_that_grows_is_the_one_cut_from_the_start() -> None:
    raws = [system(), user(), *[m for k in range(6) for m in (calls(f"c{k}"), result(f"c{k}"), user("And?"))]]
    raws += [result("c1"), calls("c9"), result("c9")]
    found = views(*raws)
    known = EMPTY
    for end in boundaries(found):
        known = structure(raws[:end], found[:end], known)
        assert known == structure(raws[:end], found[:end])
    assert Structure() == EMPTY


def test_homes_part_from_callers_where_a_message_follows_another() -> None:
    found = views(system(), user(), calls("a"), result("a"), user("And?"), calls("b"), result("b"))
    found[-1] = msgspec.structs.replace(found[-1], answers=None, follows=True)
    known = structure([], found[:5], structure([], found[:2]))
    assert known.home_of is known.caller_of
    grown = structure([], found, known)
    assert grown == structure([], found)
    assert grown.home_of != grown.caller_of
