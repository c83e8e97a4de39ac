"""A state that was packed and unpacked: the same in every field."""

from __future__ import annotations

import msgspec

from tests.support.messages import assistant, system, tool_loop, user
from trimtab.context.apply.format import CHAT
from trimtab.context.plan.packed import packed, unpacked
from trimtab.context.plan.plan import plan
from trimtab.context.plan.replays import Replays, Terms
from trimtab.context.plan.state import State
from trimtab.context.policy import Policy
from trimtab.context.read.history import history
from trimtab.context.read.memo import Memo

TURNS = [m for n in range(20) for m in (user(f"Question {n}? " + "x" * 300), assistant(f"Answer {n}."))]
RUNS = ([system(), user("The task."), *tool_loop(60)], [system(), *TURNS[:-1]])


def test_every_field_comes_back() -> None:
    for raws in RUNS:
        for policy in (Policy(), Policy(compaction=True), Policy(strict_roles=True)):
            replays, memo = Replays(), Memo()
            plan(history(raws, (), memo), policy, 1_500, memo, CHAT, replays)
            (kept,) = replays._kept.values()
            state = kept.state
            assert state.edits
            back = unpacked(packed(state), kept.terms.fresh(memo), state.structure.views)
            for name in State.__struct_fields__:
                if name not in ("structure", "ordered"):
                    assert getattr(back, name) == getattr(state, name), name
            assert back.ordered_edits == state.ordered_edits
            assert back.structure == msgspec.structs.replace(state.structure, raws=())


def test_a_record_is_small() -> None:
    memo, replays = Memo(), Replays()
    raws = [system(), user("The task."), *tool_loop(1_000)]
    plan(history(raws, (), memo), Policy(), 5_000, memo, CHAT, replays)
    (kept,) = replays._kept.values()
    assert len(packed(kept.state)) < 20 * len(raws)


def test_a_fresh_state_has_walked_nothing() -> None:
    fresh = Terms(Policy(), 1_000, 10, CHAT).fresh(Memo())
    assert (fresh.end, fresh.size, fresh.sent) == (0, 10, [])
