"""Results that a later one stands for: found by call and by content, and cleared before others."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from tests.context.plans import planned, policy, tokens, walked
from tests.support.messages import assistant, calls, prose, result, system, tool_loop, user
from trimtab.context.apply.apply import apply
from trimtab.context.edits import NEWER_LATER, SAME_LATER
from trimtab.context.plan.clear import clear
from trimtab.context.plan.repeats import compare
from trimtab.context.texts import NEWER_LATER_TEXT, SAME_LATER_TEXT

A, B = '{"path": "a"}', '{"path": "b"}'
TEXT, OTHER, SHORT = prose(3_000), prose(3_001)[1:], prose(1_200)
IMAGE = {"type": "image_url", "image_url": {"url": "https://example.invalid/a.png"}}


def cycle(k: int, content: object, given: str = A, name: str = "read_file") -> list[bytes]:
    return [calls(f"r{k}", name=name, arguments=given), result(f"r{k}", content)]


def run(*cycles: list[bytes]) -> list[bytes]:
    """The results stand at 2, 4, …"""
    return [user("Begin."), *(message for found in cycles for message in found)]


def found(raws: list[bytes]) -> dict[int, tuple[int, int]]:
    state = walked(raws, 10**6)
    compare(state)
    return state.clearing.repeats.found


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (cycle(1, TEXT), cycle(2, OTHER), {2: (4, NEWER_LATER)}),
        (cycle(1, TEXT), cycle(2, TEXT), {2: (4, SAME_LATER)}),
        (cycle(1, TEXT), cycle(2, TEXT, B), {2: (4, SAME_LATER)}),
        (cycle(1, TEXT), cycle(2, [{"type": "text", "text": TEXT}], B), {2: (4, SAME_LATER)}),
        (cycle(1, TEXT), cycle(2, OTHER, B), {}),
        (cycle(1, TEXT), cycle(2, OTHER, name="stat"), {}),
        (cycle(1, TEXT, "{}"), cycle(2, OTHER, "{}"), {}),  # it may have paged on
        (cycle(1, TEXT), cycle(2, SHORT), {}),  # an error, or "nothing has changed"
        (cycle(1, SHORT), cycle(2, TEXT), {2: (4, NEWER_LATER)}),
        (cycle(1, "ok"), cycle(2, "ok"), {}),  # nothing to be gained
        (cycle(1, [{"type": "text", "text": TEXT}, IMAGE]), cycle(2, [{"type": "text", "text": TEXT}, IMAGE], B), {}),
    ],
)
def test_what_a_later_result_stands_for(
    first: list[bytes], second: list[bytes], expected: dict[int, tuple[int, int]]
) -> None:
    assert found(run(first, second)) == expected


def test_an_error_between_two_reads_hides_neither() -> None:
    assert found(run(cycle(1, TEXT), cycle(2, "Error: busy."), cycle(3, OTHER))) == {2: (6, NEWER_LATER)}


REREAD = run(cycle(1, TEXT), *[tool_loop(1, 1_200, k) for k in range(3)], cycle(2, OTHER), *[tool_loop(2, 1_200, 7)])


def test_it_goes_before_older_results_and_says_what_stands_for_it() -> None:
    raws = [REREAD[0], *tool_loop(1, 1_200, 90), *REREAD[1:]]
    made = planned(raws, policy(target=0.9), tokens(raws) - 1)
    (edit,) = made.edits
    assert (edit.index, edit.stage, edit.reason) == (4, "cleared", "the same call was made again later")
    assert json.loads(apply(raws, made)[4])["content"] == NEWER_LATER_TEXT


def test_it_goes_also_where_the_newest_results_are_protected() -> None:
    raws = run(cycle(1, TEXT), cycle(2, TEXT), cycle(3, OTHER, B))
    made = planned(raws, policy(target=1, keep_share=1), tokens(raws) - 1)
    (edit,) = made.edits
    assert (edit.index, edit.reason) == (2, "a later result has the same content")
    assert json.loads(apply(raws, made)[2])["content"] == SAME_LATER_TEXT


@pytest.mark.parametrize(
    "raws",
    [
        [user("Begin."), calls("a", "b"), result("a", TEXT), result("b", TEXT)],  # the model has not seen them
        run([calls("r1", arguments=A, pinned=True), result("r1", TEXT)], cycle(2, TEXT)),
    ],
)
def test_what_is_protected_in_any_case_stays(raws: list[bytes]) -> None:
    state = walked(raws, tokens(raws) - 1)
    clear(state)
    assert not state.edits


def test_of_tools_that_are_excluded_none_is_cleared() -> None:
    raws = run(cycle(1, TEXT), cycle(2, TEXT), cycle(3, OTHER, B))
    state = walked(raws, tokens(raws) - 1, policy(exclude_tools=("read_file",)))
    clear(state)
    assert not state.edits


def test_one_that_was_cut_stands_for_nothing() -> None:
    raws = run(cycle(1, prose(900)), cycle(2, prose(9_000)))
    state = walked(raws, tokens(raws) - 1)
    state.edit(4, "truncated", 500, "longer than max_message_chars", 1_000)
    compare(state)
    assert not state.clearing.repeats.found


def test_a_request_that_manages_its_context_is_cleared_in_its_own_order() -> None:
    rules = replace(policy(), managed=True, trigger_tokens=10, keep_tool_uses=2)
    raws = run(cycle(1, TEXT), cycle(2, OTHER, B), cycle(3, TEXT), cycle(4, "Fine."))
    reasons = [edit.reason for edit in planned([system(), *raws, assistant(), user()], rules, 10**6).edits]
    assert reasons == ["old tool result"] * 2


def test_what_is_cleared_stays_as_it_is_when_the_later_one_goes_too() -> None:
    raws = [*REREAD]
    budget = tokens(raws) - 1
    before = planned(raws, policy(target=0.9), budget)
    longer = [*raws, *tool_loop(12, 1_200, 20)]
    after = {edit.index: edit for edit in planned(longer, policy(target=0.9), budget).edits}
    for edit in before.edits:
        assert after[edit.index] == edit or after[edit.index].stage == "dropped"
