"""The one second try after an upstream refused a request for its size or for its thinking: a different request, or
none.

After an overflow fewer tokens are sent (`smaller`). After a 413 for bytes the same conversation goes without the
oldest of the images, sounds and files it carries (`lighter`): tokens do not help there, an image costs some hundred
of them and some megabytes. How many bytes an upstream takes is seldom known, so half of them go.

System messages and the current question stay as they are in both.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from trimtab.context.edits import Edit
from trimtab.context.read.memo import Memo
from trimtab.context.read.structure import SYSTEM_ROLES
from trimtab.exchange.decide import REFUSE_AT, Shaping, decide
from trimtab.exchange.decider import Learned
from trimtab.overflow.classify import Overflow

# Shares of what was sent that the next try may have, when the upstream did not report its count: an estimate
# by which it fitted is off by an unknown amount, so clearly less; but less by a little where no more can be given up.
_STEPS = (0.75, 0.9, 0.97)
# Where it was refused so far below what the model was thought to take, the window itself is another one: mostly half.
_OTHER_WINDOW = 0.8
_HALVED = (0.5, *_STEPS)
_MARGIN = 0.98  # of a limit just learned: the estimate's own imprecision
_LEAST_OUTPUT = 16  # tokens for the answer beside what cannot be given up
_LIGHTER_BY = 0.5  # of the body's bytes
_WORTHWHILE = 0.1  # below this share of them a second try would meet the same bound


def smaller(shaping: Shaping, overflow: Overflow, learned: Learned, memo: Memo) -> Shaping | None:
    """Decide again with what the upstream just reported; None when nothing smaller can be sent. If the input alone
    fits, `max_tokens` is lowered and no history goes."""
    if (lowered := _less_output(shaping, overflow)) is not None:
        return lowered
    return _with_less_input(shaping, overflow, learned, memo) or _at_its_floor(shaping, overflow, learned, memo)


def _with_less_input(shaping: Shaping, overflow: Overflow, learned: Learned, memo: Memo) -> Shaping | None:
    """The request with less history, where that is expected to fit."""

    def planned(factor: float, cap: int | None) -> Shaping | None:
        again = decide(
            shaping.request,
            shaping.history,
            shaping.policy,
            learned.limit,
            factor,
            memo,
            cap=cap,
            dialect=shaping.dialect,
        )
        return again if again.plan.fits and again.plan.sent < shaping.plan.sent else None

    counted = _counted(shaping, overflow)
    if counted is None or overflow.limit is None:
        steps = _HALVED if overflow.limit is None and _is_another_window(shaping) else _STEPS
        caps = (_cap(shaping, overflow, int(shaping.plan.sent * learned.factor * step)) for step in steps)
        return next(filter(None, (planned(learned.factor, cap) for cap in caps)), None)
    # As the conversation's next request will be planned, so that its prefix is this one's; only where that does
    # not fit by the upstream's own count of this very conversation, by that count.
    again = planned(learned.factor, None)
    if again is not None and again.plan.sent * counted <= again.budget.usable:
        return again
    return planned(counted / _MARGIN, None)


def _at_its_floor(shaping: Shaping, overflow: Overflow, learned: Learned, memo: Memo) -> Shaping | None:
    """The request with nothing left but what is always kept, where that may fit: an estimate is not a count, and the
    upstream's own count decides. Beside it the output gets what is left of the window."""
    factor = min(shaping.factor, learned.factor)
    at = decide(
        shaping.request,
        shaping.history,
        shaping.policy,
        learned.limit,
        factor,
        memo,
        cap=1,
        dialect=shaping.dialect,
    )
    window = min(learned.limit.context_size, overflow.limit or learned.limit.context_size)
    floor, asked = at.counted(at.plan.sent), shaping.request.max_tokens
    if at.plan.sent >= shaping.plan.sent or floor > window * REFUSE_AT:
        return None
    room = max(_LEAST_OUTPUT, int((window - floor) * _MARGIN))
    budget = msgspec.structs.replace(shaping.budget, usable=window, context_size=window)
    lowered = room if asked is not None and room < asked else at.max_tokens
    return msgspec.structs.replace(at, budget=budget, max_tokens=lowered)


def _is_another_window(shaping: Shaping) -> bool:
    """True when the window was a guess, or what was refused is far below it."""
    far_below = shaping.counted(shaping.plan.sent) < shaping.budget.usable * _OTHER_WINDOW
    return far_below or not shaping.limit.trusted


def _less_output(shaping: Shaping, overflow: Overflow) -> Shaping | None:
    """The same messages with a lower `max_tokens`, where the output is what does not fit."""
    asked = shaping.max_tokens or shaping.request.max_tokens
    if not asked or overflow.limit is None or overflow.input_tokens is None or overflow.lower_bound:
        return None
    room = int((overflow.limit - overflow.input_tokens) * _MARGIN)
    if overflow.input_tokens >= overflow.limit // 2 or not 0 < room < asked:
        return None
    return msgspec.structs.replace(shaping, max_tokens=room)


def _counted(shaping: Shaping, overflow: Overflow) -> float | None:
    """The upstream's own count over the estimate of what it counted; None where it gave none."""
    counted = overflow.input_tokens or (overflow.actual if overflow.actual_kind == "input" else None)
    if counted is None or overflow.lower_bound or shaping.plan.sent <= 0:
        return None
    return counted / shaping.plan.sent


def _cap(shaping: Shaping, overflow: Overflow, sent: int) -> int:
    """The most the next try may have, in the upstream's tokens: `sent`, and no more than the limit it named."""
    if overflow.limit is None:
        return sent
    return min(sent, int((overflow.limit - min(shaping.budget.reserved, overflow.limit // 2)) * _MARGIN))


def lighter(shaping: Shaping, memo: Memo) -> Shaping | None:
    """The same decision with the oldest payloads taken out; None where that would free too few bytes."""
    whole = len(shaping.request.body)
    edits, freed = [], 0
    for edit, size in _lightened(shaping, memo):
        if freed >= whole * _LIGHTER_BY:
            break
        edits.append(edit)
        freed += size
    if freed < whole * _WORTHWHILE:
        return None
    plan = shaping.plan
    sent = plan.sent - sum(edit.tokens_before - edit.tokens_after for edit in edits)
    ordered = tuple(sorted([*plan.edits, *edits], key=lambda edit: edit.index))
    return msgspec.structs.replace(shaping, plan=msgspec.structs.replace(plan, edits=ordered, sent=sent))


def _lightened(shaping: Shaping, memo: Memo) -> Iterator[tuple[Edit, int]]:
    """Oldest first, each message that can be made lighter, and by how many bytes."""
    views = shaping.history.views
    question = max((i for i, view in enumerate(views) if view.role == "user"), default=None)
    prefill = len(views) - 1 if views and views[-1].role == "assistant" else None
    edited = {edit.index for edit in shaping.plan.edits}
    for i, view in enumerate(views):
        if view.shape != "parts" or view.role in SYSTEM_ROLES or i in (question, prefill) or i in edited:
            continue
        raw = shaping.request.messages[i]
        light = shaping.dialect.format.rewrite(raw, "lightened", 0)
        freed = len(bytes(raw)) - len(light)
        if freed > 0:
            tokens = memo.view(light).tokens
            yield Edit("lightened", i, view.tokens, min(tokens, view.tokens), "carried too many bytes"), freed


def unbound(shaping: Shaping) -> Shaping | None:
    """The same decision without any thinking that was made after an edited message; None where there is none, so that
    the upstream's complaint is about what the client did itself."""
    plan, views = shaping.plan, shaping.history.views
    changed = [edit.index for edit in plan.edits] + ([plan.gap.index] if plan.gap is not None else [])
    if not changed:
        return None
    gone = {edit.index for edit in plan.edits if edit.stage in ("dropped", "summarized")} | set(plan.unbind)
    bound = [i for i in range(min(changed), len(views)) if views[i].bound_tokens and i not in gone]
    if not bound:
        return None
    sent = plan.sent - sum(views[i].bound_tokens for i in bound)
    loose = msgspec.structs.replace(plan, unbind=tuple(sorted([*plan.unbind, *bound])), sent=sent)
    return msgspec.structs.replace(shaping, plan=loose)
