"""The laws of the core, over conversations of every shape and policies of every kind.

Quick by default; `HYPOTHESIS_PROFILE=deep pytest tests/context/test_laws.py` looks for longer.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from itertools import pairwise

import msgspec
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.context.histories import alternating, conversations, default_like, histories, policies
from tests.context.plans import planned, tokens
from tests.context.plans import policy as without_extract
from tests.support.messages import role_of, roles, system, tool_loop, user
from trimtab.context.apply.apply import apply
from trimtab.context.apply.format import CHAT
from trimtab.context.edits import Plan
from trimtab.context.plan.plan import plan
from trimtab.context.plan.replays import Replays
from trimtab.context.policy import Policy, ShapingSettings
from trimtab.context.read.history import history
from trimtab.context.read.memo import Memo
from trimtab.context.read.shelf import Shelf
from trimtab.context.read.structure import SYSTEM_ROLES, boundaries
from trimtab.context.texts import PLACEHOLDER

_QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"
# Shrinking costs minutes here, so it waits for the deep run.
_PHASES = [Phase.explicit, Phase.reuse, Phase.generate, *([Phase.shrink] if DEEP else [])]
law = settings(
    max_examples=2_000 if DEEP else 40, deadline=None, suppress_health_check=_QUIET, phases=_PHASES, print_blob=True
)

TOOLS = [b'[{"type": "function", "function": {"name": "read_file", "parameters": {"type": "object"}}}]']
extras = st.sampled_from([[], TOOLS])
shares = st.sampled_from([0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0, 1.2])
any_policy = policies() | policies(default_like)

Raws = Sequence[bytes]


def budget_of(raws: Raws, extra: Raws, share: float) -> int:
    return max(1, int(tokens(raws, extra) * share))


def gone(found: Plan) -> set[int]:
    return {e.index for e in found.edits if e.stage in ("dropped", "summarized")}


def kept_as(found: Plan, stage: str) -> set[int]:
    return {e.index for e in found.edits if e.stage == stage}


def announced(found: Plan) -> int | None:
    """The message that the announcement joins."""
    return None if found.announce is None or found.announce.own else found.announce.index


def sent(raws: Raws, found: Plan, summary: str | None = None, role: str = "system") -> list[bytes]:
    return [bytes(raw) for raw in apply(raws, found, summary, role)]


# -- pairs, by a reading of their own -----------------------------------------------------------------------------


def pairs(raws: Raws) -> dict[int, tuple[int, bool]]:
    """Result -> (its call's message, whether it is the first answer): nearest declaring assistant before it."""
    declared: dict[str, int] = {}
    open_calls: set[tuple[int, str]] = set()
    found: dict[int, tuple[int, bool]] = {}
    for i, view in enumerate(history(raws, (), Memo()).views):
        if view.answers is not None and view.answers in declared:
            home = declared[view.answers]
            found[i] = (home, (home, view.answers) in open_calls)
            open_calls.discard((home, view.answers))
        for call in view.calls:
            declared[call.id] = i
            open_calls.add((i, call.id))
    return found


# -- the laws ----------------------------------------------------------------------------------------------------


@law
@given(histories, any_policy, extras, shares)
def test_no_pair_is_broken_and_no_orphan_is_made(raws: Raws, policy: Policy, extra: Raws, share: float) -> None:
    out = gone(planned(raws, policy, budget_of(raws, extra, share), extra))
    for answer, (call, first) in pairs(raws).items():
        if answer not in out:
            assert call not in out, "a result lost its call"
        if first and call not in out:
            assert answer not in out, "a call lost its result"


@law
@given(histories, any_policy, extras, shares)
def test_the_estimate_never_grows(raws: Raws, policy: Policy, extra: Raws, share: float) -> None:
    found = planned(raws, policy, budget_of(raws, extra, share), extra)
    if found.announce is None:
        assert found.sent <= found.original
    for edit in found.edits:
        assert edit.tokens_after <= edit.tokens_before


@law
@given(histories, any_policy, extras, shares)
def test_what_is_planned_is_what_is_made(raws: Raws, policy: Policy, extra: Raws, share: float) -> None:
    """Exactly, but for a summary, which is counted at its allotted size as its text is not known yet, for a note that
    joins another message, and for a pinned message of unknown form, which is counted by its bytes, mark included.
    """
    found = planned(raws, policy, budget_of(raws, extra, share), extra)
    made = tokens(sent(raws, found), extra)
    assert made <= found.sent
    exact = not found.summary and (found.gap is None or (found.gap.into is None and found.gap.note))
    if exact and not any(Memo().view(raws[i]).shape == "opaque" for i in found.unpin):
        assert made == found.sent
    assert found.fits == (found.sent <= found.budget)


@law
@given(histories, any_policy, extras, shares)
def test_question_and_system_messages_reach_the_model_unchanged(
    raws: Raws, policy: Policy, extra: Raws, share: float
) -> None:
    found = planned(raws, policy, budget_of(raws, extra, share), extra)
    found_roles = roles(raws)
    question = max((i for i, role in enumerate(found_roles) if role == "user"), default=None)
    last = history(raws, (), Memo()).views[-1]
    prefill = len(raws) - 1 if last.role == "assistant" and not last.calls else None
    system = [i for i, role in enumerate(found_roles) if role in SYSTEM_ROLES]
    opening = next((i for i, role in enumerate(found_roles) if role not in (*SYSTEM_ROLES, "user")), len(raws))
    trimmed = {e.index for e in found.edits if e.stage == "trimmed" and e.index == question}
    edited = {e.index for e in found.edits} - trimmed
    # A system message within the conversation goes with what is around it, but for the newest.
    stays = [i for i in system if i < opening or i == system[-1]]
    kept = [i for i in range(len(raws)) if i in (question, prefill) or i in stays]
    assert not edited & set(kept)
    assert not edited & set(system) - gone(found)
    rest = iter(sent(raws, found))
    for i in kept:
        if i not in found.unpin and i != announced(found) and i not in trimmed:
            assert any(raw == raws[i] for raw in rest), "lost, changed or out of order"


@law
@given(histories, any_policy, extras, shares)
def test_untouched_messages_keep_their_bytes(raws: Raws, policy: Policy, extra: Raws, share: float) -> None:
    found = planned(raws, policy, budget_of(raws, extra, share), extra)
    touched = {e.index for e in found.edits} | set(found.unpin) | {announced(found)}
    touched |= {found.gap.into} if found.gap else set()
    rest = iter(sent(raws, found))
    for i, raw in enumerate(raws):
        assert i in touched or any(other == raw for other in rest)
    places = [found.gap.index if found.gap else None, found.announce.index if found.announce else None]
    first = min([i for i in (*touched, *places, len(raws)) if i is not None])
    assert sent(raws, found)[:first] == list(raws[:first])


@law
@given(histories, any_policy, extras)
def test_a_request_that_fits_keeps_its_bytes(raws: Raws, policy: Policy, extra: Raws) -> None:
    plain = Policy(
        shaping=msgspec.structs.replace(
            policy.shaping, announce=False, truncate="when_over", max_messages=None, summarize_after_messages=None
        ),
        compaction=policy.compaction,
    )
    found = planned(raws, plain, tokens(raws, extra), extra)
    assert not found.edits
    assert found.gap is None
    assert found.fits
    if not found.unpin:
        assert not found.changes
        assert sent(raws, found) == list(raws)


@law
@given(histories, any_policy, extras, shares)
def test_planning_again_asks_for_nothing_new(raws: Raws, policy: Policy, extra: Raws, share: float) -> None:
    """When the first plan reached its target. Not for a window of messages, in which a pinned message counts again, and
    not when messages must be shorter than the placeholder, or than a message that the note joins."""
    budget = budget_of(raws, extra, share)
    found = planned(raws, policy, budget, extra)
    windows = (policy.shaping.max_messages, policy.shaping.summarize_after_messages)
    if not found.fits or windows != (None, None) or policy.shaping.max_message_chars < len(PLACEHOLDER):
        return
    if policy.managed and found.unpin:
        return  # `pinned` is taken off before sending, and what the client asked to clear may then be cleared
    if policy.shaping.truncate == "always" and found.gap is not None and found.gap.into is not None:
        return
    if kept_as(found, "trimmed") & set(found.unpin):
        return  # without its mark, what was the goal is a text like any other
    again = planned(sent(raws, found), policy, budget, extra)
    assert not again.edits
    assert again.announce is None


@law
@given(histories, any_policy, extras, shares)
def test_what_is_sent_begins_as_the_history_did(raws: Raws, policy: Policy, extra: Raws, share: float) -> None:
    """Never with an assistant message, unless one stood before the first question in the history too."""
    found_roles = roles(raws)
    before = found_roles[: found_roles.index("user")] if "user" in found_roles else found_roles
    found = planned(raws, policy, budget_of(raws, extra, share), extra)
    note = "user" if policy.strict_roles else "system"
    first = next((role for role in roles(sent(raws, found, role=note)) if role not in SYSTEM_ROLES), "")
    assert first != "assistant" or "assistant" in before


@law
@given(alternating(), policies(default_like) | policies(), extras, shares, st.sampled_from([None, "So far so good."]))
def test_roles_that_alternate_do_so_in_what_is_sent(
    raws: Raws, policy: Policy, extra: Raws, share: float, summary: str | None
) -> None:
    """Where a strict template demands it; as it reads them: questions and plain answers, tool cycles apart."""
    strict = msgspec.structs.replace(policy, strict_roles=True)
    found = planned(raws, strict, budget_of(raws, extra, share), extra)
    out = apply(raws, found, summary if found.summary else None, "user")
    views = history(out, (), Memo()).views
    turns = [v.role for v in views if v.role == "user" or (v.role == "assistant" and not v.calls)]
    assert not [turns for a, b in pairwise(turns) if a == b]
    assert [v.role for v in views].count("system") <= 1
    assert next(iter(turns), "user") == "user"


@law
@given(histories, any_policy, extras, shares)
def test_frontiers_only_move_forward(raws: Raws, policy: Policy, extra: Raws, share: float) -> None:
    budget = budget_of(raws, extra, share)
    before = Plan(0, 0, 0, True)
    for end in boundaries(history(raws, (), Memo()).views)[:-1]:
        found = planned(raws[:end], policy, budget, extra)
        assert gone(before) <= gone(found), "a message that was gone came back"
        assert kept_as(before, "cleared") <= kept_as(found, "cleared") | gone(found), "a cleared one came back"
        assert kept_as(before, "inputs_cleared") <= kept_as(found, "inputs_cleared") | gone(found)
        assert {e.index for e in before.edits} <= {e.index for e in found.edits}
        before = found


@law
@given(histories, policies(default_like), extras, shares)
def test_appending_what_fits_changes_nothing_before_it(raws: Raws, policy: Policy, extra: Raws, share: float) -> None:
    """Between two moves of a frontier every request extends the one before it, byte for byte. Where roles must
    alternate the note moves once more, into the message beside it, when that is no longer the current question."""
    if policy.trigger_tool_uses is not None or policy.compaction or policy.strict_roles:
        return
    budget = budget_of(raws, extra, share)
    views = history(raws, (), Memo()).views
    ends = boundaries(views)[:-1]
    for end, later in pairwise(ends):
        before, after = (planned(raws[:n], policy, budget, extra) for n in (end, later))
        new = sum(view.tokens for view in views[end:later])
        if before.sent + before.spare + new <= min(budget, policy.trigger_tokens or budget):
            assert [e for e in after.edits if e.index < end] == list(before.edits)
            assert after.gap == before.gap
            assert sent(raws[:later], after)[: len(sent(raws[:end], before))] == sent(raws[:end], before)


@law
@given(histories, any_policy, extras, shares)
def test_one_by_one_or_at_once(raws: Raws, policy: Policy, extra: Raws, share: float) -> None:
    """A process that saw every step, and one that sees the history for the first time, send the same bytes."""
    budget, memo = budget_of(raws, extra, share), Memo(capacity=8)
    for end in range(1, len(raws) + 1):
        stepwise = plan(history(raws[:end], extra, memo), policy, budget, memo)
    assert stepwise == planned(raws, policy, budget, extra)


@law
@given(histories, st.integers(1, 50), any_policy)
def test_absurd_budgets_never_raise(raws: Raws, budget: int, policy: Policy) -> None:
    found = planned(raws, policy, budget)
    assert apply(raws, found, "a summary", "user") or not raws or found.edits


@law
@given(histories, policies(default_like), extras, shares)
def test_a_conversation_fits_when_what_cannot_go_fits(raws: Raws, policy: Policy, extra: Raws, share: float) -> None:
    """Refused only for system prompt, tools and question (and what the announcement adds)."""
    found = planned(raws, policy, budget_of(raws, extra, share), extra)
    if not found.fits:
        assert found.breakdown is not None
        assert found.breakdown.total > found.budget


# -- a window of messages ----------------------------------------------------------------------------------------


@law
@given(conversations(), st.integers(1, 10), st.sampled_from([0.4, 0.6, 1.0]))
def test_a_window_keeps_that_many_messages(raws: Raws, most: int, target: float) -> None:
    """System messages, the note and what is pinned apart."""
    policy = Policy(shaping=ShapingSettings(max_messages=most, target=target, pin_share=0, keep_recent=0))
    found = planned(raws, policy, 10**6)
    views = history(raws, (), Memo()).views
    kept = [i for i, v in enumerate(views) if i not in gone(found) and role_of(raws[i]) not in SYSTEM_ROLES]
    question = max((i for i in kept if role_of(raws[i]) == "user"), default=-1)
    assert len([i for i in kept if i < question]) <= most


def test_the_example_of_the_design_is_shaped() -> None:
    """A guard on the laws themselves: the strategies must reach every stage."""
    raws = [system(), user("Begin."), *tool_loop(60, 1_200)]
    found = planned(raws, without_extract(), tokens(raws) // 3)
    assert kept_as(found, "cleared")
    assert found.fits
    assert json.loads(sent(raws, found)[-1]) == json.loads(raws[-1])


@law
@given(histories, st.lists(st.tuples(any_policy, shares), min_size=1, max_size=2), extras, st.booleans(), st.data())
def test_a_plan_that_goes_on_from_a_kept_replay_is_the_one_from_the_start(
    raws: Raws, terms: list[tuple[Policy, float]], extra: Raws, strict: bool, data: st.DataObject
) -> None:
    """Sent step by step, some steps twice, under terms that change between them; some replays wait on the shelf."""
    replays, memo = Replays(least_messages=0, shelf=Shelf()), Memo()
    views = memo.views(raws)
    for end in boundaries(views):
        policy, share = data.draw(st.sampled_from(terms))
        policy = msgspec.structs.replace(policy, strict_roles=strict)
        budget, conversation = budget_of(raws, extra, share), history(raws[:end], extra, memo)
        for _ in range(data.draw(st.integers(1, 2))):
            assert plan(conversation, policy, budget, memo, CHAT, replays) == plan(conversation, policy, budget, memo)
        if data.draw(st.booleans()):
            while replays._kept:
                replays._kept.popitem()
