"""The answer of `/v1/context/plan`: what would be done with a request, without doing it.

The structs are the answer's schema in the OpenAPI document, field by field. All counts are tokens, as the upstream is
expected to count them. No text of the conversation is in it.
"""

from __future__ import annotations

import msgspec

from trimtab.exchange.decide import Shaping


class PlannedTokens(msgspec.Struct, frozen=True):
    """The whole request before and after the edits."""

    original: int
    sent: int


class PlannedEdit(msgspec.Struct, frozen=True):
    """One message that would be changed or removed. `index` is its place among the messages, from 0."""

    stage: str
    index: int
    tokens_before: int
    tokens_after: int
    reason: str


class PlannedSummary(msgspec.Struct, frozen=True):
    """Whether a summary would stand for the removed messages, and whether it has been made already."""

    wanted: bool
    cached: bool


class Irreducible(msgspec.Struct, frozen=True):
    """What can never be removed."""

    system: int
    tools: int
    question: int


class ContextPlan(msgspec.Struct, frozen=True):
    """What would be done with a request. `budget` is what its input may take, of a window of `context_size`;
    `limit_source` and `limit_detail` name where the window is known from. `irreducible` is null where nothing has to
    be removed."""

    model: str
    budget: int
    context_size: int
    reserved_output: int
    limit_source: str
    limit_detail: str
    fits: bool
    tokens: PlannedTokens
    edits: list[PlannedEdit]
    summary: PlannedSummary
    irreducible: Irreducible | None


def explain(shaping: Shaping, *, cached: bool) -> ContextPlan:
    """A decision as the plan endpoint answers it; `cached`: the wanted summary has been made already."""
    plan, counted, part = shaping.plan, shaping.counted, shaping.plan.breakdown
    kept = None if part is None else Irreducible(counted(part.system), counted(part.tools), counted(part.question))
    edits = [
        PlannedEdit(e.stage, e.index, counted(e.tokens_before), counted(e.tokens_after), e.reason) for e in plan.edits
    ]
    return ContextPlan(
        model=shaping.request.model,
        budget=shaping.budget.usable,
        context_size=shaping.budget.context_size,
        reserved_output=shaping.budget.reserved,
        limit_source=shaping.limit.source,
        limit_detail=shaping.limit.detail,
        fits=plan.fits,
        tokens=PlannedTokens(counted(plan.original), counted(plan.sent)),
        edits=edits,
        summary=PlannedSummary(bool(plan.summary), cached),
        irreducible=kept,
    )
