"""What a plan asks of the summarizer, asked. The plan names segments; here they become digests, a writer and a wait.

A request never fails for want of a summary: without one the note stands in the gap, or the newest shorter summary.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from trimtab.context.apply.apply import apply
from trimtab.context.apply.cut import head_and_tail
from trimtab.context.edits import Segment
from trimtab.context.estimate.tokens import text_tokens
from trimtab.context.plan.wanted import SummaryWanted, chain
from trimtab.context.texts import NOTE
from trimtab.exchange.shape import Shaping
from trimtab.summaries.chain import Writer
from trimtab.summaries.completion import SentPrefix
from trimtab.summaries.settings import CompactionSettings
from trimtab.summaries.summarizer import Summarizer, SummaryOutcome
from trimtab.telemetry import SummaryResult


class Gathered(msgspec.Struct, frozen=True):
    """What goes into the gap, how many of the conversation's messages it stands for, and what it cost this request in
    tokens of the summary model."""

    text: str | None = None
    result: SummaryResult = "none"
    tokens_in: int = 0
    tokens_out: int = 0
    messages: int = 0


NOTHING = Gathered()


class Compaction:
    """Summaries for one configuration."""

    def __init__(
        self,
        settings: CompactionSettings,
        summarizer: Summarizer,
        same_server: Callable[[str, str], bool] = lambda model, other: True,
    ) -> None:
        self._settings, self._summarizer, self._same_server = settings, summarizer, same_server

    async def gather(self, shaping: Shaping, credential: bytes) -> Gathered:
        """The summary the plan wants, waiting no longer than the configuration allows."""
        if not shaping.plan.summary:
            return NOTHING
        wanted = self._wanted(shaping, shaping.plan.summary)
        outcome = await self._summarizer.fetch(wanted, shaping.request.messages, self._writer(shaping, credential))
        return Gathered(
            text=fitting(_text(outcome, len(wanted.spans)), _room(shaping)),
            result=outcome.result,
            tokens_in=outcome.tokens_in,
            tokens_out=outcome.tokens_out,
            messages=_summarized(shaping, outcome),
        )

    async def prepare(
        self, shaping: Shaping, credential: bytes, summary: str | None = None, role: str = "system"
    ) -> bool:
        """Have the next summary made beside the requests, before it is needed. Whether that was begun. `summary` and
        `role` are what stood in the gap of the request that was just answered."""
        wanted = self._wanted(shaping, shaping.plan.ahead)
        writer = self._writer(shaping, credential)
        if self._settings.ride_prefix and self._settings.model == "same":
            writer = msgspec.structs.replace(writer, prefix=_sent_prefix(shaping, summary, role))
        return await self._summarizer.prepare(wanted, shaping.request.messages, writer)

    async def stored(self, shaping: Shaping, credential: bytes) -> bool:
        """Whether the summary the plan wants is there. Calls no one."""
        if not shaping.plan.summary:
            return False
        wanted = self._wanted(shaping, shaping.plan.summary)
        return await self._summarizer.stored(wanted, self._writer(shaping, credential)) == len(wanted.spans)

    def _wanted(self, shaping: Shaping, segments: tuple[Segment, ...]) -> SummaryWanted:
        spans = tuple((segment.start, segment.stop) for segment in segments)
        digests = chain(shaping.request.messages, spans)
        return SummaryWanted(spans, digests, shaping.policy.summary_tokens, shaping.policy.hint)

    def _writer(self, shaping: Shaping, credential: bytes) -> Writer:
        """The model that writes: the request's own or the one configured. The request's own takes what the
        request may have; a named one is bounded by its setting alone, and gets the client's key only where that goes
        anyway."""
        if self._settings.model == "same":
            return Writer(shaping.request.model, credential, int(shaping.budget.usable / shaping.factor))
        same_server = self._same_server(self._settings.model, shaping.request.model)
        return Writer(self._settings.model, credential, sends_credential=same_server)


# Of the body beside the messages: what a provider's cache key covers or its routing goes by.
_CACHED_FIELDS = ("tools", "functions", "chat_template_kwargs", "prompt_cache_key", "user", "service_tier")


def _sent_prefix(shaping: Shaping, summary: str | None, role: str) -> SentPrefix | None:
    """What was sent up to the end of the last segment ahead; None where it is not the original text of what is to be
    summarized."""
    plan, stop = shaping.plan, shaping.plan.ahead[-1].stop
    new = plan.ahead[len(plan.summary)].start
    if any(new <= edit.index < stop for edit in plan.edits) or (plan.gap is not None and summary is None):
        return None
    sent = apply(shaping.request.messages[:stop], plan, summary, role)
    fields = msgspec.json.decode(shaping.request.source, type=dict[str, msgspec.Raw])
    return SentPrefix(
        tuple(bytes(message) for message in sent), {name: fields[name] for name in _CACHED_FIELDS if name in fields}
    )


def _summarized(shaping: Shaping, outcome: SummaryOutcome) -> int:
    """How many messages were taken out for which the text stands."""
    if not outcome.covers:
        return 0
    stop = shaping.plan.summary[outcome.covers - 1].stop
    return sum(edit.stage == "summarized" and edit.index < stop for edit in shaping.plan.edits)


def _room(shaping: Shaping) -> int:
    """Estimated tokens the text in the gap may have: what it was counted at, and what is left of the budget."""
    plan = shaping.plan
    return shaping.policy.summary_tokens + max(0, plan.budget - plan.sent)


def fitting(text: str | None, room: int) -> str | None:
    """A summary may come out longer than it was asked for and counted at. Where the request has no room for that, its
    middle goes: the task stands at its beginning, what was done last at its end."""
    if text is None:
        return None
    chars, cut = len(text), text
    while chars and (size := text_tokens(cut)) > room:
        chars = int(chars * min(0.95, room / size))
        cut = head_and_tail(text, chars)
    return cut


def _text(outcome: SummaryOutcome, wanted: int) -> str | None:
    """The text for the gap; one that covers less than was taken out says so."""
    if outcome.text is None or outcome.covers == wanted:
        return outcome.text
    return f"{outcome.text}\n\n{NOTE}"
