"""What the client is told about what was done: response headers, the SSE comment, `applied_edits`, the answer of
`/v1/context/plan`. Numbers and fixed words only.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from trimtab.context.edits import Plan
from trimtab.exchange.compaction import NOTHING, Gathered
from trimtab.exchange.policies import CLEAR_TOOL_USES
from trimtab.exchange.shape import Shaping
from trimtab.telemetry import Edited
from trimtab.telemetry import Stage as Shown

# `inputs_cleared` belongs to clearing in every report: it is the same act on the other half of the pair. So does
# `lightened` to squeezing: a message that stays, with less in it.
_SHOWN: tuple[Shown, ...] = ("truncated", "cleared", "summarized", "dropped", "squeezed")
_SHOWN_AS: dict[str, Shown] = {
    **{stage: stage for stage in _SHOWN},
    "inputs_cleared": "cleared",
    "lightened": "squeezed",
}
_NOTHING = ", ".join(f"{stage}=0" for stage in _SHOWN).encode()


def edited(shaping: Shaping) -> tuple[Edited, ...]:
    """Messages and tokens by stage; only the stages that did something."""
    count: Counter[str] = Counter()
    tokens: Counter[str] = Counter()
    for edit in shaping.plan.edits:
        stage = _SHOWN_AS[edit.stage]
        count[stage] += edit.stage != "inputs_cleared"
        tokens[stage] += edit.tokens_before - edit.tokens_after
    return tuple(Edited(s, count[s], shaping.counted(tokens[s])) for s in _SHOWN if s in count)


def headers(shaping: Shaping, edits: tuple[Edited, ...], gathered: Gathered) -> list[tuple[bytes, bytes]]:
    """The `x-trimtab-*` response headers; token counts are estimates in the upstream's tokens."""
    plan, counted = shaping.plan, shaping.counted
    sizes = f"original={counted(plan.original)}, sent={counted(plan.sent)}, budget={shaping.budget.usable}"
    done = {e.stage: e.count for e in edits}
    shown = ", ".join(f"{stage}={done.get(stage, 0)}" for stage in _SHOWN).encode() if edits else _NOTHING
    out = [
        (b"x-trimtab-tokens", sizes.encode()),
        (b"x-trimtab-edits", shown),
        (b"x-trimtab-limit-source", shaping.limit.source.encode()),
    ]
    if gathered.result != "none":
        out.append((b"x-trimtab-summary", gathered.result.encode()))
        cost = f"in={gathered.tokens_in}, out={gathered.tokens_out}"
        out.append((b"x-trimtab-compaction-tokens", cost.encode()))
    if gathered.messages:
        out.append((b"x-trimtab-summary-messages", b"%d" % gathered.messages))
    return out


def comment(shaping: Shaping, edits: tuple[Edited, ...], gathered: Gathered) -> bytes:
    """One SSE comment, which every client ignores and a curious one can read."""
    return b": trimtab " + msgspec.json.encode(_digest(shaping, edits, gathered)) + b"\n\n"


def _digest(shaping: Shaping, edits: tuple[Edited, ...], gathered: Gathered) -> dict[str, Any]:
    plan, counted = shaping.plan, shaping.counted
    said: dict[str, Any] = {
        "tokens": {"original": counted(plan.original), "sent": counted(plan.sent), "budget": shaping.budget.usable},
        "edits": {e.stage: e.count for e in edits},
    }
    if gathered.result != "none":
        said["summary"] = gathered.result
    if gathered.messages:
        said["summary_messages"] = gathered.messages
    return said


def applied_edits(shaping: Shaping, edits: tuple[Edited, ...], gathered: Gathered = NOTHING) -> bytes:
    """The `context_management` answer, in the vocabulary the request used, and in ours for the stages it lacks."""
    done: list[dict[str, Any]] = []
    for e in edits:
        if e.stage == "cleared":
            entry = {"type": CLEAR_TOOL_USES, "cleared_tool_uses": e.count, "cleared_input_tokens": e.tokens}
        else:
            entry = {"type": f"trimtab_{e.stage}", "messages": e.count, "removed_input_tokens": e.tokens}
        if e.stage == "summarized":
            entry |= {"summary": gathered.result, "summary_messages": gathered.messages}
        done.append(entry)
    return msgspec.json.encode({"applied_edits": done})


def explained(shaping: Shaping, cached: bool | None) -> dict[str, Any]:
    """The answer of `/v1/context/plan`."""
    plan, counted = shaping.plan, shaping.counted
    return {
        "model": shaping.request.model,
        "budget": shaping.budget.usable,
        "context_size": shaping.budget.context_size,
        "reserved_output": shaping.budget.reserved,
        "limit_source": shaping.limit.source,
        "limit_detail": shaping.limit.detail,
        "fits": plan.fits,
        "tokens": {"original": counted(plan.original), "sent": counted(plan.sent)},
        "edits": [
            {
                "stage": e.stage,
                "index": e.index,
                "tokens_before": counted(e.tokens_before),
                "tokens_after": counted(e.tokens_after),
                "reason": e.reason,
            }
            for e in plan.edits
        ],
        "summary": {"wanted": bool(plan.summary), "cached": bool(cached)},
        "irreducible": _irreducible(shaping, plan),
    }


def _irreducible(shaping: Shaping, plan: Plan) -> dict[str, int] | None:
    if plan.breakdown is None:
        return None
    counted, part = shaping.counted, plan.breakdown
    return {"system": counted(part.system), "tools": counted(part.tools), "question": counted(part.question)}
