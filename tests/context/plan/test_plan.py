"""Plans: what is asked of a history as a whole, what stands in the gap, what is refused, what is made ahead."""

from __future__ import annotations

import msgspec
import pytest

from tests.context.plans import planned, policy, staged, tokens
from tests.support.messages import assistant, calls, msg, prose, result, system, tool_loop, user
from trimtab.context.edits import Breakdown, Gap, Plan
from trimtab.context.plan.plan import STAGES
from trimtab.context.plan.state import NOTE_TOKENS
from trimtab.context.policy import Policy, ShapingSettings
from trimtab.context.read.history import History, history
from trimtab.context.read.memo import Memo
from trimtab.context.texts import NOTE

LARGE = 10**6
TOOLS = [b'[{"type":"function","function":{"name":"read_file"}}]']


def test_the_order_of_the_stages_is_the_design() -> None:
    assert [stage.__name__ for stage in STAGES] == [
        "truncate",
        "clear",
        "summarize",
        "drop",
        "squeeze",
        "drop_all_but_question",
    ]


def test_a_history_counts_messages_and_extras() -> None:
    raws = [system(), user()]
    found = history(raws, TOOLS, Memo())
    assert isinstance(found, History)
    assert found.raws is raws
    assert found.tokens == found.extras + sum(view.tokens for view in found.views)


def test_what_fits_is_not_walked() -> None:
    raws = [system(), user(), *tool_loop(3)]
    size = tokens(raws, TOOLS)
    assert planned(raws, Policy(), size, TOOLS) == Plan(size, size, size, True)


@pytest.mark.parametrize("raws", [[], [user()], [system()], [b"null"], [assistant()], [result("a")]])
def test_the_smallest_histories(raws: list[bytes]) -> None:
    for budget in (1, 5, LARGE):
        found = planned(raws, Policy(compaction=True), budget)
        assert found.fits == (found.sent <= budget)


def test_tools_alone_may_be_too_much() -> None:
    found = planned([user("hi")], Policy(), 10, [prose(900).encode()])
    assert not found.fits
    assert found.breakdown is not None
    assert found.breakdown.tools > 10
    assert planned([], Policy(), 10, [prose(900).encode()]).breakdown is not None


def test_what_stays_anyway_may_be_more_than_there_is_room_for() -> None:
    """The low-water mark lies above what stays, but never above the budget."""
    raws = [system(prose(4_000)), user(prose(3_000)), assistant(), user("q")]
    size = history(raws, (), Memo()).tokens
    for share in (0.6, 0.7, 0.8, 0.9, 0.99):
        assert planned(raws, policy(target=0.9, keep_recent=4), int(size * share)).fits


def test_a_refusal_says_what_cannot_be_given_up() -> None:
    raws = [system(prose(900)), *tool_loop(3), user(prose(2_000)), msg("developer", "x")]
    found = planned(raws, Policy(), 100, TOOLS)
    assert not found.fits
    assert found.breakdown == Breakdown(
        system=tokens([raws[0], raws[-1]]), tools=tokens([], TOOLS), question=tokens([raws[-2]])
    )
    assert found.sent == found.breakdown.total


# -- the gap -----------------------------------------------------------------------------------------------------

LOOP = tool_loop(12, 900)

GAPS: dict[str, tuple[list[bytes], int]] = {
    "after the task": ([system(), user("Begin."), *LOOP], 2),
    "without a system message": ([user("Begin."), *LOOP], 1),
    "after all leading system messages": ([system(), msg("developer"), user("Begin."), *LOOP], 3),
    "in place of a greeting": ([system(), assistant("Ahoy!"), *LOOP, user("hi")], 1),
}


@pytest.mark.parametrize(("raws", "index"), GAPS.values(), ids=GAPS)
def test_where_the_note_stands(raws: list[bytes], index: int) -> None:
    rules = policy(exclude_tools=("read_file",), keep_recent=2)
    found = planned(raws, rules, tokens(raws) // 3)
    assert found.gap == Gap(index, NOTE_TOKENS)


def test_in_place_of_a_task_that_lost_its_pin() -> None:
    raws = [system(), user(prose(2_000)), *LOOP, user("And?"), *LOOP[:2]]
    rules = policy(exclude_tools=("read_file",), keep_recent=2, pin_share=0.1)
    found = planned(raws, rules, tokens(raws) // 3)
    assert 1 in staged(found)["dropped"]
    assert found.gap == Gap(1, NOTE_TOKENS)


def test_a_note_given_up_for_a_large_question_stands_again_after_it() -> None:
    raws = [system(), user(prose(3_000)), *LOOP, user("And?"), *LOOP[:2]]
    rules = policy(exclude_tools=("read_file",))
    assert planned(raws[:14], rules, tokens(raws[:2])).gap is None
    assert planned(raws, rules, tokens(raws[:2])).gap is not None


def test_clearing_alone_leaves_no_gap() -> None:
    found = planned([user("Begin."), *LOOP], Policy(), tokens(LOOP) * 4 // 5)
    assert set(staged(found)) == {"cleared"}
    assert found.gap is None


# -- summaries ---------------------------------------------------------------------------------------------------

COMPACT = Policy(ShapingSettings(exclude_tools=("read_file",)), compaction=True, summary_tokens=100)


def test_the_plan_lists_the_segments_the_summary_stands_for() -> None:
    raws = [system(), user("Begin."), *LOOP]
    found = planned(raws, COMPACT, tokens(raws) * 3 // 4)
    assert found.summary
    assert found.summary[0].start == 1
    assert found.gap == Gap(2, 104)
    gone = staged(found)["summarized"]
    assert gone == list(range(2, found.summary[-1].stop))
    assert NOTE not in str(found)


def test_the_next_summary_is_made_ahead_once_the_conversation_nears_its_budget() -> None:
    raws = [system(), user("Begin."), *LOOP]
    near = planned(raws, COMPACT, int(tokens(raws) / 0.95))
    far = planned(raws, COMPACT, int(tokens(raws) / 0.7))
    assert far.ahead == ()
    assert near.ahead
    assert not near.changes
    budget = int(tokens(raws) / 0.95)
    more = planned([*raws, *tool_loop(6, 900, 12)], COMPACT, budget)
    assert more.summary[: len(near.ahead)] == near.ahead or near.ahead[: len(more.summary)] == more.summary


def test_without_compaction_nothing_is_summarized_nor_made_ahead() -> None:
    raws = [system(), user("Begin."), *LOOP]
    plain = msgspec.structs.replace(COMPACT, compaction=False)
    found = planned(raws, plain, tokens(raws) * 3 // 4)
    assert (found.summary, found.ahead) == ((), ())
    assert set(staged(found)) == {"dropped"}


# -- marks ---------------------------------------------------------------------------------------------------------


def test_marks_are_taken_off_what_is_sent_and_only_there() -> None:
    raws = [user("Begin.", pinned=True), assistant(pinned=False), user(pinned=True)]
    assert planned(raws, Policy(), LARGE).unpin == (0, 1, 2)
    dropped = planned([user(prose(900), pinned=True), assistant(), user(pinned=True)], Policy(), 20)
    assert dropped.unpin == (2,)


# -- what was once sent ------------------------------------------------------------------------------------------


def test_every_step_of_a_run_extends_the_one_before_but_for_few_breaks() -> None:
    """Twenty turns of large results: at most one rewriting turn in four."""
    rules, budget, breaks, before = Policy(), 4_000, 0, {}
    for n in range(1, 41):
        raws = [system(), user("Begin."), *tool_loop(n, 1_200)]
        now = {e.index: e.stage for e in planned(raws, rules, budget).edits}
        breaks += now != before
        assert before.keys() <= now.keys()
        before = now
    assert 0 < breaks <= 10


def test_a_conversation_in_which_roles_are_unknown_is_still_shaped() -> None:
    raws = [msg("critic", prose(900)) for _ in range(10)] + [user()]
    found = planned(raws, Policy(), tokens(raws) // 3)
    assert found.fits


def test_calls_and_results_of_the_old_functions_go_together() -> None:
    call = b'{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}}'
    loop = [m for _ in range(9) for m in (call, msg("function", prose(600), name="f"))]
    found = planned([user("Begin."), *loop], policy(target=0.4), tokens(loop) // 4)
    gone = staged(found).get("dropped", [])
    assert all((i + 1 in gone) == (i in gone) for i in range(1, len(loop), 2))
    assert staged(found)["cleared"]


def test_messages_in_a_unit_too_large_for_the_whole_budget() -> None:
    raws = [user("Begin."), calls("a", arguments='{"x": "' + prose(90_000) + '"}'), result("a", prose(90_000))]
    found = planned(raws, Policy(), 1_000)
    assert found.fits
    assert set(staged(found)) <= {"truncated", "squeezed", "dropped"}
