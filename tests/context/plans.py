"""Plans for tests: made from raw messages, and read as the messages that each stage changed."""

from __future__ import annotations

from collections.abc import Sequence

from trimtab.context.edits import Plan
from trimtab.context.plan.pins import set_target
from trimtab.context.plan.plan import plan
from trimtab.context.plan.state import State
from trimtab.context.policy import Policy, ShapingSettings
from trimtab.context.read.history import history
from trimtab.context.read.memo import Memo
from trimtab.context.read.structure import structure


def planned(raws: Sequence[bytes], policy: Policy, budget: int, extras: Sequence[bytes] = ()) -> Plan:
    memo = Memo()
    return plan(history(raws, extras, memo), policy, budget, memo)


# No extract: what the stages do is then told in round numbers. The extract has tests of its own.
PLAIN: dict[str, object] = {"extract_share": 0.0, "result_extract": 0}


def policy(*, compaction: bool = False, **shaping: object) -> Policy:
    return Policy(ShapingSettings(**PLAIN | shaping), compaction=compaction)  # type: ignore[arg-type]


def tokens(raws: Sequence[bytes], extras: Sequence[bytes] = ()) -> int:
    return history(raws, extras, Memo()).tokens


def staged(found: Plan) -> dict[str, list[int]]:
    """Indices of the messages of each stage that did something."""
    out: dict[str, list[int]] = {}
    for edit in found.edits:
        out.setdefault(edit.stage, []).append(edit.index)
    return out


def walked(raws: Sequence[bytes], budget: int, given: Policy | None = None) -> State:
    """The state at the end of a history, before any stage has run."""
    memo = Memo()
    state = State(structure(raws, memo.views(raws)), 0, given or policy(), budget, memo)
    state.advance(len(raws))
    set_target(state)
    return state
