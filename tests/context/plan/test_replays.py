"""A plan that goes on from a kept replay; that it is the plan made from the start is a law (`test_laws`)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from tests.support.messages import assistant, calls, result, system, tool_loop, user
from trimtab.context.apply.format import CHAT
from trimtab.context.edits import Plan
from trimtab.context.plan.plan import plan
from trimtab.context.plan.replays import Replays, Terms
from trimtab.context.plan.state import State
from trimtab.context.policy import Policy, ShapingSettings
from trimtab.context.read.history import history
from trimtab.context.read.memo import Memo
from trimtab.context.read.prefix import Prefix
from trimtab.context.read.shelf import Shelf
from trimtab.context.read.views import View

RUN = [system(), user("The task."), *tool_loop(60)]
BUDGET = 1_500
POLICY = Policy()


class Counted(Replays):
    """Remembers how many messages the last replay had not to walk."""

    stepped_over = 0

    def take(self, views: Sequence[View], terms: Terms, memo: Memo, prefix: Prefix | None = None) -> State | None:
        found = super().take(views, terms, memo, prefix)
        self.stepped_over = 0 if found is None else found.end
        return found


def planned(raws: Sequence[bytes], replays: Replays | None, policy: Policy = POLICY, budget: int = BUDGET) -> Plan:
    memo = Memo()
    return plan(history(raws, (), memo), policy, budget, memo, CHAT, replays)


def test_a_step_walks_only_what_is_new() -> None:
    replays = Counted()
    for end in range(40, len(RUN), 2):
        assert planned(RUN[:end], replays) == planned(RUN[:end], None)
        assert replays.stepped_over == (end - 2 if end > 40 else 0)


def test_the_same_request_again_walks_nothing() -> None:
    replays = Counted()
    first = planned(RUN, replays)
    assert planned(RUN, replays) == first
    assert replays.stepped_over == len(RUN)


def test_no_message_at_all() -> None:
    memo = Memo()
    tools = history([], [b'[{"type":"function"}]'], memo)
    assert plan(tools, POLICY, 1, memo, CHAT, Replays()) == plan(tools, POLICY, 1, memo, CHAT)


@pytest.mark.parametrize(
    ("policy", "budget"),
    [(Policy(ShapingSettings(target=0.3)), BUDGET), (POLICY, BUDGET + 1)],
    ids=["policy", "budget"],
)
def test_under_other_terms_a_conversation_is_walked_from_its_start(policy: Policy, budget: int) -> None:
    replays = Counted()
    planned(RUN[:-2], replays)
    assert planned(RUN, replays, policy, budget) == planned(RUN, None, policy, budget)
    assert replays.stepped_over == 0


def test_another_conversation_with_the_same_last_message_is_not_taken_for_it() -> None:
    replays = Counted()
    planned(RUN[:-2], replays)
    other = [system("You are careless."), *RUN[1:]]
    assert planned(other, replays) == planned(other, None)
    assert replays.stepped_over == 0


@pytest.mark.parametrize(
    "end",
    [
        [calls("x", "y"), result("x")],  # a result is still missing
        [assistant("I begin")],  # a prefill, which the next answer takes the place of
    ],
)
def test_a_history_that_may_still_change_at_its_end_is_not_gone_on_from(end: list[bytes]) -> None:
    replays = Counted()
    planned([*RUN, *end], replays)
    longer = [*RUN, *end, result("y"), assistant("Done."), user("Next.")]
    assert planned(longer, replays) == planned(longer, None)
    assert replays.stepped_over == 0


def test_what_is_kept_is_bounded() -> None:
    replays = Counted(most_messages=150)
    other = [system(), user("Another task."), *tool_loop(60, start=100)]
    planned(RUN[:-2], replays)
    planned(other[:-2], replays)
    planned(RUN, replays)
    assert replays.stepped_over == 0
    planned([*RUN, *tool_loop(100)], replays)  # too long to be kept at all
    planned([*RUN, *tool_loop(101)], replays)
    assert replays.stepped_over == 0


def test_what_was_not_used_lately_goes_on_from_the_shelf() -> None:
    replays = Counted(most_messages=150, shelf=Shelf())
    others = [[system(), user(f"Task {n}."), *tool_loop(60, start=100 * n)] for n in range(1, 10)]
    for run in (RUN, *others):
        planned(run[:-2], replays)
    assert len(replays._kept) == 1
    for run in (RUN, *others):
        assert planned(run, replays) == planned(run, None)
        assert replays.stepped_over == len(RUN) - 2


def test_a_record_is_found_by_its_conversation_and_terms_alone() -> None:
    replays = Counted(most_messages=150, shelf=Shelf())
    for run in (RUN[:-2], [system(), user("Another task."), *tool_loop(60, start=100)]):
        planned(run, replays)
    planned([system("You are careless."), *RUN[1:]], replays)
    assert replays.stepped_over == 0
    planned(RUN, replays, Policy(ShapingSettings(target=0.3)))
    assert replays.stepped_over == 0
    planned(RUN, replays)
    assert replays.stepped_over == len(RUN) - 2


def test_no_text_is_kept() -> None:
    replays = Replays()
    planned(RUN, replays)
    (kept,) = replays._kept.values()
    assert kept.state.structure.raws == ()


def test_what_both_go_on_from_is_not_compared_again() -> None:
    """The same views stand in the same prefix; what comes after it is compared."""
    memo = Memo()
    replays, raws = Counted(), RUN
    first = history(raws[:-2], (), memo)
    prefix = Prefix(first.views[:60], [], 0, (), 60, 0)
    longer = Prefix(first.views[60:80], [], 0, (), 80, 0, prefix)
    plan(msgspec.structs.replace(first, prefix=prefix), POLICY, BUDGET, memo, CHAT, replays)
    second = msgspec.structs.replace(history(raws, (), memo), prefix=longer)
    assert plan(second, POLICY, BUDGET, memo, CHAT, replays) == planned(raws, None)
    assert replays.stepped_over == len(raws) - 2
    other = history([*raws[:70], assistant("else"), *raws[71:], *tool_loop(1, start=60)], (), memo)
    plan(msgspec.structs.replace(other, prefix=prefix), POLICY, BUDGET, memo, CHAT, replays)
    assert replays.stepped_over == 0
