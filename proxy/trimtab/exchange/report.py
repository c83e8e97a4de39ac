"""What was done with a request, as its client sees it: response headers, one SSE comment, and `applied_edits`.

Numbers and fixed words only; no text of the conversation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from trimtab.context.edits import Edit, Edits
from trimtab.context.estimate.tokens import text_tokens
from trimtab.context.read.views import View
from trimtab.context.texts import CLEARED_TO_EXTRACT, PLACEHOLDER
from trimtab.exchange.decide import Shaping
from trimtab.exchange.management import CLEAR_TOOL_USES, is_ours, managed
from trimtab.summaries.chain import Spent
from trimtab.telemetry import Edited, SummaryResult
from trimtab.telemetry import Stage as Shown
from trimtab.wire import sse

# `inputs_cleared` belongs to clearing in every report: it is the same act on the other half of the pair. So does
# `lightened` to squeezing: a message that stays, with less in it. `trimmed` is a kind of truncating.
_SHOWN: tuple[Shown, ...] = ("truncated", "cleared", "summarized", "dropped", "squeezed")
_SHOWN_AS: dict[str, Shown] = {
    **{stage: stage for stage in _SHOWN},
    "trimmed": "truncated",
    "inputs_cleared": "cleared",
    "lightened": "squeezed",
}
CONVERSATION = b"x-trimtab-conversation"
"""The header that names the stored conversation of a chat completion, in a request and in its answer."""

# Tokens that the first line of a cleared result takes less where an extract of it follows.
_SHORTER = text_tokens(PLACEHOLDER) - text_tokens(CLEARED_TO_EXTRACT)
_NO_EDITS = ", ".join(f"{stage}=0" for stage in _SHOWN).encode()


class Gathered(msgspec.Struct, frozen=True):
    """What goes into the gap, how many of the conversation's messages it stands for, and what it cost this request in
    tokens of the summary model. `spent` is what all requests of the conversation have paid for it by now. `cause` is
    why there is none, or only a shorter one."""

    text: str | None = None
    result: SummaryResult = "none"
    tokens_in: int = 0
    tokens_out: int = 0
    messages: int = 0
    spent: Spent = Spent()
    cause: str = ""


NO_SUMMARY = Gathered()


def edited(shaping: Shaping) -> tuple[Edited, ...]:
    """Messages and tokens by stage; only the stages that did something. What the gap keeps is of the messages that were
    dropped, or else summarized."""
    plan, counted = shaping.plan, shaping.counted
    sums: dict[Shown, _Sum] | None = plan.edits.sums if isinstance(plan.edits, Edits) else None
    if sums is None:
        sums = _sums(plan.edits, shaping.history.views)
        if isinstance(plan.edits, Edits):
            plan.edits.sums = sums
    gap = 0 if plan.gap is None else plan.gap.extract_tokens
    holds_gap: Shown = "dropped" if "dropped" in sums else "summarized"
    return tuple(
        [
            Edited(s, sums[s].count, counted(sums[s].tokens), counted(sums[s].kept + (gap if s == holds_gap else 0)))
            for s in _SHOWN
            if s in sums
        ]
    )


class _Sum(msgspec.Struct):
    """What edits of one stage come to: messages, tokens that went, and those of extracts that are kept."""

    count: int = 0
    tokens: int = 0
    kept: int = 0


def _sums(edits: Iterable[Edit], views: Sequence[View]) -> dict[Shown, _Sum]:
    found: dict[Shown, _Sum] = {}
    for edit in edits:
        stage = _SHOWN_AS[edit.stage]
        of = found.get(stage)
        if of is None:
            of = found[stage] = _Sum()
        of.count += edit.stage != "inputs_cleared"
        of.tokens += edit.tokens_before - edit.tokens_after
        if edit.amount and stage == "cleared":
            more = edit.tokens_after - views[edit.index].cleared_tokens
            of.kept += max(0, more + _SHORTER) if more else 0
    return found


class Part(msgspec.Struct, frozen=True):
    """What an answer reports of the stored conversation that it is a part of. `messages`: of the whole history;
    `sent`: of what the model got. `gap`: before which of the messages something was left out, `item`: the id of that
    message where it is stored, `stands`: what stands there (summary, extract, note), empty for nothing."""

    id: str
    messages: int
    sent: int
    gap: int | None = None
    item: str = ""
    stands: str = ""

    def headers(self) -> list[tuple[bytes, bytes]]:
        """The headers of the answer."""
        counts = f"history={self.messages}, sent={self.sent}"
        counts += "" if self.gap is None else f", gap={self.gap}"
        named = [(CONVERSATION, self.id.encode())] if self.id else []
        return [*named, (b"x-trimtab-messages", counts.encode())]

    def fields(self) -> dict[str, Any]:
        """The object `conversation` in the body's `trimtab`, and in the comment of a stream."""
        fields: dict[str, Any] = {"id": self.id} if self.id else {}
        fields |= {"messages": self.messages, "sent": self.sent}
        if self.gap is not None:
            place = {"before": self.gap, "stands": self.stands or None}
            fields["gap"] = place | ({"item": self.item} if self.item else {})
        return fields


class Report(msgspec.Struct, frozen=True):
    """What was done with one request. Token counts are estimates, as the upstream is expected to count them. `sent`:
    something was sent to the upstream. `conversation`: the stored one that it is a part of."""

    shaping: Shaping
    edits: tuple[Edited, ...]
    gathered: Gathered = NO_SUMMARY
    sent: bool = True
    conversation: Part | None = None

    def headers(self) -> list[tuple[bytes, bytes]]:
        """The `x-trimtab-*` response headers."""
        gathered = self.gathered
        out = [
            (b"x-trimtab-tokens", b"original=%d, sent=%d, budget=%d" % self._sizes()),
            (b"x-trimtab-edits", self._edits() if self.edits else _NO_EDITS),
            (b"x-trimtab-limit-source", self.shaping.limit.source.encode()),
        ]
        if gathered.result != "none":
            out.append((b"x-trimtab-summary", gathered.result.encode()))
            cost = f"in={gathered.tokens_in}, out={gathered.tokens_out}"
            out.append((b"x-trimtab-compaction-tokens", cost.encode()))
        if gathered.messages:
            out.append((b"x-trimtab-summary-messages", b"%d" % gathered.messages))
        return out + (self.conversation.headers() if self.conversation else [])

    def _sizes(self) -> tuple[int, int, int]:
        """Tokens of the original, of what was sent, and of the budget."""
        plan, counted = self.shaping.plan, self.shaping.counted
        original = counted(plan.original)
        sent = original if plan.sent == plan.original else counted(plan.sent)
        return original, sent if self.sent else 0, self.shaping.budget.usable

    def _edits(self) -> bytes:
        done, kept = {e.stage: e.count for e in self.edits}, self._extract()
        counts = [f"{stage}={done.get(stage, 0)}" for stage in _SHOWN] + ([f"extract={kept}"] if kept else [])
        return ", ".join(counts).encode()

    def _extract(self) -> int:
        """Tokens of all extracts: what is kept, word for word, of what was cleared and removed."""
        return sum([e.extract for e in self.edits])

    def comment(self) -> bytes:
        """One SSE comment, which every client ignores and a curious one can read."""
        return b": trimtab " + msgspec.json.encode(self._shown()) + b"\n\n"

    def _shown(self) -> dict[str, Any]:
        sizes = dict(zip(("original", "sent", "budget"), self._sizes(), strict=True))
        shown: dict[str, Any] = {"tokens": sizes, "edits": {e.stage: e.count for e in self.edits}}
        if kept := self._extract():
            shown["extract"] = kept
        if self.gathered.result != "none":
            shown["summary"] = self.gathered.result
        if self.gathered.messages:
            shown["summary_messages"] = self.gathered.messages
        if self.conversation is not None:
            shown["conversation"] = self.conversation.fields()
        return shown | self._spent()

    def _spent(self) -> dict[str, Any]:
        """What the conversation has cost in summaries so far, if anything."""
        spent = self.gathered.spent
        if not spent.calls:
            return {}
        shown = {"calls": spent.calls, "input_tokens": spent.tokens_in, "output_tokens": spent.tokens_out}
        return {"summaries_so_far": shown}

    def fields(self, *, obeyed: bool, explain: bool) -> dict[str, Any]:
        """The fields that are added to the answer's body: `context_management` for a request that had one for us, where
        it was `obeyed`, `trimtab` for one with `x-trimtab-explain`."""
        added: dict[str, Any] = {}
        asked = self.shaping.request.context_management
        if obeyed and asked is not None and is_ours(asked):
            added["context_management"] = {"applied_edits": self._applied_edits()}
            if ignored := managed(self.shaping.policy, asked).ignored:
                added["context_management"]["ignored_edits"] = [{"type": name} for name in ignored]
        return {**added, "trimtab": self._shown() | self._explained()} if explain else added

    def _explained(self) -> dict[str, Any]:
        """What only those see who ask for it. `first_kept` is the place, from 0, of the oldest message after the cut
        that was sent; null where nothing was cut. `own_tokens` are what this request's summary has cost."""
        plan = self.shaping.plan
        received = len(self.shaping.history.views)
        removed = {edit.index for edit in plan.edits if edit.stage in ("dropped", "summarized")} if self.sent else set()
        kept = [i for i in range(plan.gap.index, received) if i not in removed] if plan.gap is not None else []
        return {
            "messages": {
                "received": received,
                "sent": received - len(removed) + self._gap_messages() if self.sent else 0,
            },
            "first_kept": kept[0] if kept else None,
            "stages": [{"stage": e.stage, "messages": e.count, "tokens": e.tokens} for e in self.edits],
            "own_tokens": {"input": self.gathered.tokens_in, "output": self.gathered.tokens_out},
        }

    def _gap_messages(self) -> int:
        """How many messages stand in the gap."""
        gap = self.shaping.plan.gap
        return int(gap is not None and gap.into is None and (gap.note or bool(self.gathered.text)))

    def _applied_edits(self) -> list[dict[str, Any]]:
        """In the vocabulary of the request, and in ours for the stages it lacks."""
        done: list[dict[str, Any]] = []
        for e in self.edits:
            if e.stage == "cleared":
                entry = {"type": CLEAR_TOOL_USES, "cleared_tool_uses": e.count, "cleared_input_tokens": e.tokens}
            else:
                entry = {"type": f"trimtab_{e.stage}", "messages": e.count, "removed_input_tokens": e.tokens}
            if e.extract:
                entry["extract_tokens"] = e.extract
            if e.stage == "summarized":
                entry |= {"summary": self.gathered.result, "summary_messages": self.gathered.messages} | self._spent()
            elif e.stage == "dropped" and self.gathered.result == "fallback":
                entry |= {"summary": "fallback"}
            done.append(entry)
        return done


def event_with_fields(like: bytes, fields: Mapping[str, Any]) -> bytes:
    """A chunk of a chat stream without choices, like the upstream's last, with these fields."""
    last: dict[str, msgspec.Raw] = {}
    with suppress(msgspec.DecodeError):
        last = msgspec.json.decode(like, type=dict[str, msgspec.Raw])
    kept: dict[str, object] = {key: last[key] for key in ("id", "object", "created", "model") if key in last}
    return sse.event(msgspec.json.encode({**kept, "choices": [], **fields}))
