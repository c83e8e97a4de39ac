"""Clearing: which tool results, how far, and which never."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.context.plans import planned, policy, staged, tokens, walked
from tests.support.messages import assistant, calls, prose, result, tool_loop, user
from trimtab.context.plan.clear import clear
from trimtab.context.policy import Policy
from trimtab.context.read.views import view

LARGE = 10**6


LOOP = [user("Begin."), *tool_loop(12, 1_200)]  # results at 2, 4, … 24


def cleared(raws: list[bytes], budget: int, **shaping: Any) -> list[int]:
    state = walked(raws, budget, policy(**shaping))
    clear(state)
    return sorted(state.edits)


def test_nothing_is_cleared_while_it_fits() -> None:
    assert cleared(LOOP, tokens(LOOP)) == []


def test_the_oldest_go_first_in_whole_batches() -> None:
    assert cleared(LOOP, tokens(LOOP) - 1, target=1, clear_batch=4) == [2, 4, 6, 8]
    assert cleared(LOOP, tokens(LOOP) - 1, target=1, clear_batch=3) == [2, 4, 6]


def test_down_to_the_target() -> None:
    state = walked(LOOP, tokens(LOOP) - 1, policy(target=0.5, clear_batch=1, keep_share=0))
    clear(state)
    last = max(state.edits)
    gained = state.edits[last].tokens_before - state.edits[last].tokens_after
    assert state.size <= state.target < state.size + gained


def test_the_newest_are_protected_by_their_share_and_always_what_the_model_has_not_seen() -> None:
    budget = tokens(LOOP) - 1
    assert cleared(LOOP, budget, target=0, keep_share=0, clear_batch=1) == list(range(2, 24, 2))
    assert cleared(LOOP, budget, target=0, keep_share=1, clear_batch=1) == []
    half = cleared(LOOP, budget, target=0, keep_share=0.5, clear_batch=1)
    assert half[-1] in (12, 14)


def test_the_newest_is_kept_also_when_it_was_seen_and_is_large() -> None:
    raws = [*LOOP, assistant("Seen."), user("And?")]
    assert cleared(raws, tokens(raws) - 1, target=0, keep_share=0, clear_batch=1) == list(range(2, 24, 2))


def test_of_parallel_results_none_is_cleared_before_the_model_saw_it() -> None:
    raws = [user("Begin."), *tool_loop(2, 900), calls("a", "b"), result("a", prose(900)), result("b", prose(900))]
    assert cleared(raws, 10, keep_share=0, clear_batch=1) == [2, 4]


def test_an_incomplete_batch_waits_unless_it_is_needed_to_fit() -> None:
    raws = [user("Begin."), *tool_loop(4, 1_200)]
    assert cleared(raws, tokens(raws) - 1, clear_batch=8, keep_share=0) == [2, 4, 6]
    state = walked(raws, LARGE, msgspec.structs.replace(policy(clear_batch=8, keep_share=0), trigger_tokens=10))
    clear(state)
    assert not state.edits


def test_small_results_excluded_tools_and_pins_are_left_alone() -> None:
    raws = [
        user("Begin."),
        *(calls("a"), result("a", "ok")),
        *(calls("b", name="memory"), result("b", prose(1_200))),
        *(calls("c"), result("c", prose(1_200), pinned=True)),
        *(calls("d"), result("d", prose(1_200))),
        *(calls("e"), result("e", prose(1_200))),
    ]
    budget = tokens(raws) - 1
    assert cleared(raws, budget, exclude_tools=("memory",), keep_share=0) == [8]


def test_a_tool_is_excluded_by_the_name_its_own_call_gave() -> None:
    """The same id, used again for another tool."""
    raws = [
        user("Begin."),
        *(calls("a", name="memory"), result("a", prose(1_200))),
        *(calls("a", name="search"), result("a", prose(1_200))),
        *tool_loop(1, 1_200),
    ]
    assert cleared(raws, tokens(raws) - 1, exclude_tools=("memory",), keep_share=0) == [4]


def managed(raws: list[bytes], **fields: Any) -> dict[str, list[int]]:
    return staged(planned(raws, Policy(managed=True, **fields), LARGE))


def test_what_context_management_asks_for() -> None:
    assert managed(LOOP, trigger_tokens=10, keep_tool_uses=10) == {"cleared": [2, 4]}
    assert managed(LOOP, trigger_tokens=10, keep_tool_uses=0) == {"cleared": list(range(2, 24, 2))}
    assert managed(LOOP, trigger_tokens=LARGE, keep_tool_uses=0) == {}
    assert managed(LOOP, trigger_tokens=10, keep_tool_uses=3, exclude_tools=("read_file",)) == {}


def test_a_trigger_in_tool_uses() -> None:
    assert managed(LOOP, trigger_tool_uses=12, keep_tool_uses=3) == {}
    assert managed(LOOP, trigger_tool_uses=11, keep_tool_uses=3) == {"cleared": list(range(2, 20, 2))}


def test_a_trigger_in_tool_uses_that_is_not_reached_clears_nothing_though_a_window_is_exceeded() -> None:
    rules = msgspec.structs.replace(policy(max_messages=20), managed=True, trigger_tool_uses=50, keep_tool_uses=1)
    assert set(staged(planned(LOOP, rules, LARGE))) == {"dropped"}


def test_nothing_is_cleared_for_less_than_asked() -> None:
    gain = sum(view(LOOP[i]).tokens - view(LOOP[i]).cleared_tokens for i in range(2, 20, 2))
    assert managed(LOOP, trigger_tokens=10, keep_tool_uses=3, clear_at_least=gain + 10_000) == {}
    at_the_end = {"trigger_tokens": tokens(LOOP) - 1, "keep_tool_uses": 3}
    assert managed(LOOP, **at_the_end, clear_at_least=gain) == {"cleared": list(range(2, 20, 2))}
    assert managed(LOOP, **at_the_end, clear_at_least=gain + 1) == {}


def test_arguments_are_cleared_with_the_result_where_asked() -> None:
    loop = [user("Begin.")]
    for k, name in enumerate(("read_file", "write_file", "read_file")):
        loop += [calls(f"c{k}", name=name, arguments='{"text": "' + prose(300) + '"}'), result(f"c{k}", prose(900))]
    asked: dict[str, Any] = {"trigger_tokens": 10, "keep_tool_uses": 1}
    assert managed(loop, **asked, clear_inputs=True) == {"inputs_cleared": [1, 3], "cleared": [2, 4]}
    assert managed(loop, **asked, clear_inputs=("write_file",)) == {"inputs_cleared": [3], "cleared": [2, 4]}
    assert managed(loop, **asked) == {"cleared": [2, 4]}
