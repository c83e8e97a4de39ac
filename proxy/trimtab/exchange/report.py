"""What was done with a request, as its client sees it: response headers, one SSE comment, and `applied_edits`.

Numbers and fixed words only; no text of the conversation.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from trimtab.exchange.decide import Shaping
from trimtab.exchange.policies import CLEAR_TOOL_USES
from trimtab.telemetry import Edited, SummaryResult
from trimtab.telemetry import Stage as Shown

# `inputs_cleared` belongs to clearing in every report: it is the same act on the other half of the pair. So does
# `lightened` to squeezing: a message that stays, with less in it.
_SHOWN: tuple[Shown, ...] = ("truncated", "cleared", "summarized", "dropped", "squeezed")
_SHOWN_AS: dict[str, Shown] = {
    **{stage: stage for stage in _SHOWN},
    "inputs_cleared": "cleared",
    "lightened": "squeezed",
}
_NO_EDITS = ", ".join(f"{stage}=0" for stage in _SHOWN).encode()


class Gathered(msgspec.Struct, frozen=True):
    """What goes into the gap, how many of the conversation's messages it stands for, and what it cost this request in
    tokens of the summary model. `cause` is why there is none, or only a shorter one."""

    text: str | None = None
    result: SummaryResult = "none"
    tokens_in: int = 0
    tokens_out: int = 0
    messages: int = 0
    cause: str = ""


NO_SUMMARY = Gathered()


def edited(shaping: Shaping) -> tuple[Edited, ...]:
    """Messages and tokens by stage; only the stages that did something."""
    count: Counter[str] = Counter()
    tokens: Counter[str] = Counter()
    for edit in shaping.plan.edits:
        stage = _SHOWN_AS[edit.stage]
        count[stage] += edit.stage != "inputs_cleared"
        tokens[stage] += edit.tokens_before - edit.tokens_after
    return tuple(Edited(s, count[s], shaping.counted(tokens[s])) for s in _SHOWN if s in count)


class Report(msgspec.Struct, frozen=True):
    """What was done with one request. Token counts are estimates, as the upstream is expected to count them. `sent`:
    something was sent to the upstream."""

    shaping: Shaping
    edits: tuple[Edited, ...]
    gathered: Gathered = NO_SUMMARY
    sent: bool = True

    def headers(self) -> list[tuple[bytes, bytes]]:
        """The `x-trimtab-*` response headers."""
        gathered = self.gathered
        sizes = ", ".join(f"{name}={tokens}" for name, tokens in self._sizes().items())
        out = [
            (b"x-trimtab-tokens", sizes.encode()),
            (b"x-trimtab-edits", self._edits() if self.edits else _NO_EDITS),
            (b"x-trimtab-limit-source", self.shaping.limit.source.encode()),
        ]
        if gathered.result != "none":
            out.append((b"x-trimtab-summary", gathered.result.encode()))
            cost = f"in={gathered.tokens_in}, out={gathered.tokens_out}"
            out.append((b"x-trimtab-compaction-tokens", cost.encode()))
        if gathered.messages:
            out.append((b"x-trimtab-summary-messages", b"%d" % gathered.messages))
        return out

    def _sizes(self) -> dict[str, int]:
        plan, counted = self.shaping.plan, self.shaping.counted
        sent = counted(plan.sent) if self.sent else 0
        return {"original": counted(plan.original), "sent": sent, "budget": self.shaping.budget.usable}

    def _edits(self) -> bytes:
        done = {e.stage: e.count for e in self.edits}
        return ", ".join(f"{stage}={done.get(stage, 0)}" for stage in _SHOWN).encode()

    def comment(self) -> bytes:
        """One SSE comment, which every client ignores and a curious one can read."""
        shown: dict[str, Any] = {"tokens": self._sizes(), "edits": {e.stage: e.count for e in self.edits}}
        if self.gathered.result != "none":
            shown["summary"] = self.gathered.result
        if self.gathered.messages:
            shown["summary_messages"] = self.gathered.messages
        return b": trimtab " + msgspec.json.encode(shown) + b"\n\n"

    def applied_edits(self) -> bytes:
        """The `context_management` answer: in the vocabulary of the request, and in ours for the stages it lacks."""
        done: list[dict[str, Any]] = []
        for e in self.edits:
            if e.stage == "cleared":
                entry = {"type": CLEAR_TOOL_USES, "cleared_tool_uses": e.count, "cleared_input_tokens": e.tokens}
            else:
                entry = {"type": f"trimtab_{e.stage}", "messages": e.count, "removed_input_tokens": e.tokens}
            if e.stage == "summarized":
                entry |= {"summary": self.gathered.result, "summary_messages": self.gathered.messages}
            elif e.stage == "dropped" and self.gathered.result == "fallback":
                entry |= {"summary": "fallback"}
            done.append(entry)
        return msgspec.json.encode({"applied_edits": done})
