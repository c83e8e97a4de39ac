"""What a plan asks of the summarizer. The plan names segments; here they become digests, a writer and a wait. The call
of the model that writes is in `summary_completion`.

No request fails for a missing summary: the note stands in the gap then, or the newest shorter summary.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from trimtab.context.apply.apply import apply
from trimtab.context.apply.cut import head_and_tail
from trimtab.context.apply.format import AsChat
from trimtab.context.edits import Segment
from trimtab.context.estimate.tokens import text_tokens
from trimtab.context.plan.wanted import SummaryWanted, chain
from trimtab.context.texts import NOTE
from trimtab.exchange.decide import Shaping
from trimtab.exchange.report import NO_SUMMARY, Gathered
from trimtab.exchange.summary_window import SummaryWindow
from trimtab.summaries.chain import Spent, Writer
from trimtab.summaries.completion import SentPrefix
from trimtab.summaries.settings import CompactionSettings
from trimtab.summaries.summarizer import Summarizer, SummaryOutcome
from trimtab.upstream.families import Role
from trimtab.wire.messages import Parts
from trimtab.wire.request import NOTHING_CARRIED, Carried


class Compaction:
    """Summaries as one configuration wants them. `same_server` is as `Calls.same_server`."""

    def __init__(
        self,
        settings: CompactionSettings,
        summarizer: Summarizer,
        same_server: Callable[[str, str], bool] = lambda model, other: True,
        window: SummaryWindow | None = None,
    ) -> None:
        """`window`: of the model that the configuration names; without it only the setting bounds its calls."""
        self._settings, self._summarizer, self._same_server = settings, summarizer, same_server
        self._window = window
        self._ahead: set[asyncio.Task[bool]] = set()

    async def gather(
        self,
        shaping: Shaping,
        credential: bytes,
        tenant: bytes | None = None,
        carried: Carried = NOTHING_CARRIED,
    ) -> Gathered:
        """The summary the plan wants, if any; waits no longer than the configuration allows. The model is called with
        what is `carried` over from the client's request."""
        if not shaping.plan.summary:
            return NO_SUMMARY
        wanted = self._wanted(shaping, shaping.plan.summary)
        writer = await self._bounded(self._writer(shaping, credential, tenant, carried))
        outcome = await self._summarizer.fetch(wanted, _readable(shaping), writer)
        return Gathered(
            text=fitting(_text(outcome, len(wanted.spans)), _room(shaping)),
            result=outcome.result,
            tokens_in=outcome.tokens_in,
            tokens_out=outcome.tokens_out,
            messages=_summarized(shaping, outcome),
            spent=outcome.spent,
            cause=outcome.cause,
        )

    def look_ahead(
        self, shaping: Shaping, credential: bytes, tenant: bytes, carried: Carried, summary: str | None, role: Role
    ) -> None:
        """Have the next summary made beside the requests, where the plan names one: it is needed some requests from
        now, and no request waits for it. Begun after an answer, so that it does not compete with it, and finds what
        was sent in the provider's prefix cache. `summary` and `role` are what stood in the gap of that request."""
        if shaping.plan.ahead:
            task = asyncio.create_task(self.prepare(shaping, credential, summary, role, tenant, carried))
            self._ahead.add(task)
            task.add_done_callback(self._ahead.discard)

    async def prepare(
        self,
        shaping: Shaping,
        credential: bytes,
        summary: str | None = None,
        role: Role = "system",
        tenant: bytes | None = None,
        carried: Carried = NOTHING_CARRIED,
    ) -> bool:
        """As `look_ahead`, at once. Returns whether a summary was begun."""
        wanted = self._wanted(shaping, shaping.plan.ahead)
        writer = await self._bounded(self._writer(shaping, credential, tenant, carried))
        if self._settings.ride_prefix and self._settings.model == "same" and shaping.dialect.cached_fields:
            writer = msgspec.structs.replace(writer, prefix=_sent_prefix(shaping, summary, role))
        return await self._summarizer.prepare(wanted, _readable(shaping), writer)

    async def stored(self, shaping: Shaping, credential: bytes, tenant: bytes | None = None) -> str | None:
        """The summary the plan wants, as it would stand in the gap; None unless it has been made. Calls no model."""
        if not shaping.plan.summary:
            return None
        wanted = self._wanted(shaping, shaping.plan.summary)
        text = await self._summarizer.stored(wanted, self._writer(shaping, credential, tenant))
        return fitting(text, _room(shaping))

    async def spent(self, shaping: Shaping, credential: bytes, tenant: bytes | None = None) -> Spent:
        """What the summary that was made ahead has cost by now. Calls no model."""
        wanted = self._wanted(shaping, shaping.plan.ahead)
        return await self._summarizer.spent(wanted, self._writer(shaping, credential, tenant))

    def _wanted(self, shaping: Shaping, segments: tuple[Segment, ...]) -> SummaryWanted:
        spans = tuple((segment.start, segment.stop) for segment in segments)
        digests = chain(shaping.request.messages, spans, shaping.dialect.format.canonical)
        return SummaryWanted(spans, digests, shaping.policy.summary_tokens, shaping.policy.hint)

    def _writer(
        self, shaping: Shaping, credential: bytes, tenant: bytes | None = None, carried: Carried = NOTHING_CARRIED
    ) -> Writer:
        """The model that writes: the request's own or the one configured. The request's own reads what the request
        may have; a named one gets the client's key only on the same server."""
        if self._settings.model == "same":
            most = int(shaping.budget.usable / shaping.factor)
            model, dialect = shaping.request.model, shaping.dialect
            return Writer(model, credential, most, dialect=dialect, tenant=tenant, carried=carried)
        same_server = self._same_server(self._settings.model, shaping.request.model)
        model = self._settings.model
        return Writer(model, credential, sends_credential=same_server, tenant=tenant, carried=carried)

    async def _bounded(self, writer: Writer) -> Writer:
        """The writer, with what a model of its own takes."""
        if self._window is None or self._settings.model == "same":
            return writer
        most = await self._window.read_tokens(writer.model, writer.sent_credential)
        return msgspec.structs.replace(writer, read_tokens=most)


def _sent_prefix(shaping: Shaping, summary: str | None, role: Role) -> SentPrefix | None:
    """What was sent up to the end of the last segment ahead; None where it is not the original text of what is to be
    summarized."""
    plan, stop, dialect = shaping.plan, shaping.plan.ahead[-1].stop, shaping.dialect
    new = plan.ahead[len(plan.summary)].start
    if isinstance(shaping.request.messages, Parts):  # which are not messages
        return None
    if any(new <= edit.index < stop for edit in plan.edits) or (plan.gap is not None and summary is None):
        return None
    sent = apply(shaping.request.messages[:stop], plan, summary, role, dialect.format)
    fields = msgspec.json.decode(shaping.request.source, type=dict[str, msgspec.Raw])
    beside = {name: fields[name] for name in dialect.cached_fields if name in fields}
    return SentPrefix(tuple(bytes(message) for message in sent), beside)


def _readable(shaping: Shaping) -> Sequence[bytes | msgspec.Raw]:
    """The messages as the summary model reads them."""
    return AsChat(shaping.request.messages, shaping.dialect.format)


def _summarized(shaping: Shaping, outcome: SummaryOutcome) -> int:
    """How many removed messages the text stands for."""
    if not outcome.covers:
        return 0
    stop = shaping.plan.summary[outcome.covers - 1].stop
    return sum(edit.stage == "summarized" and edit.index < stop for edit in shaping.plan.edits)


def settled(shaping: Shaping, gathered: Gathered) -> Shaping:
    """The decision as it was carried out. What the plan gave to a summary, and no summary stands for, was dropped; and
    what stands in the gap has its own size instead of the one it was planned with."""
    plan = shaping.plan
    if not plan.summary:
        return shaping
    removed = sorted(edit.index for edit in plan.edits if edit.stage == "summarized")
    dropped = frozenset(removed[gathered.messages :])  # a shorter summary stands for the first of them
    edits = [
        msgspec.structs.replace(edit, stage="dropped", reason="no summary") if edit.index in dropped else edit
        for edit in plan.edits
    ]
    first = "dropped" if plan.prefix_break == "summarized" and not gathered.messages else plan.prefix_break
    sent = plan.sent - shaping.policy.summary_tokens + text_tokens(gathered.text or NOTE)
    carried_out = msgspec.structs.replace(plan, edits=tuple(edits), prefix_break=first, sent=sent)
    return msgspec.structs.replace(shaping, plan=carried_out)


def _room(shaping: Shaping) -> int:
    """Estimated tokens that the text in the gap may have: what it was counted at, and what is left of the budget."""
    plan = shaping.plan
    return shaping.policy.summary_tokens + max(0, plan.budget - plan.sent)


def fitting(text: str | None, room: int) -> str | None:
    """A summary, cut to `room` tokens. It may be longer than was asked for and counted; then its middle goes, because
    the task stands at its beginning and what was done last at its end."""
    if text is None:
        return None
    chars, cut = len(text), text
    while chars and (size := text_tokens(cut)) > room:
        chars = int(chars * min(0.95, room / size))
        cut = head_and_tail(text, chars)
    return cut


def _text(outcome: SummaryOutcome, wanted: int) -> str | None:
    """The text for the gap; one that covers fewer segments than were removed ends in the note."""
    if outcome.text is None or outcome.covers == wanted:
        return outcome.text
    return f"{outcome.text}\n\n{NOTE}"
