"""Before and after: a request as it came and as it goes out, message by message, with the reason of every edit.

A kept request is shown as it was sent. Any other is planned here, by the code that plans a real one, with what the
process has learned, and with settings of the policy that whoever looks may change. Nothing is sent or remembered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Raw

from trimtab.context.apply.apply import apply
from trimtab.context.edits import Plan
from trimtab.context.policy import ShapingSettings
from trimtab.dialects.paths import recognized
from trimtab.errors import InvalidRequest
from trimtab.exchange.calls import Calls
from trimtab.exchange.decide import Shaping, untouched
from trimtab.exchange.decider import Decider
from trimtab.exchange.explain import ContextPlan, explain
from trimtab.exchange.incoming import Bounds
from trimtab.exchange.outgoing import outgoing
from trimtab.exchange.policies import Chosen
from trimtab.limits import Limit
from trimtab.ui.figures import Kind, MessageFigures, by_kind, messages, sketch
from trimtab.ui.ring import Bodies, Kept
from trimtab.upstream.families import summary_role
from trimtab.wire.request import Unreadable


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to plan: a request's `body`, or the `number` of an exchange whose bodies are kept. `shaping` are keys of the
    table `[shaping]` that replace those in force; `context_size` (tokens) replaces what is known of the model."""

    body: Raw = Raw(b"")
    number: int | None = None
    profile: str = ""
    shaping: dict[str, Any] = {}
    context_size: int | None = None


class Compared(msgspec.Struct, frozen=True):
    """One message on both sides, as its JSON. `index` is its place in the request, null for a message of the proxy's
    own: the announcement, or what stands in the gap. `before` is null for that one; `after` is null for a message that
    was sent as it came, or, with a stage `dropped` or `summarized`, not at all."""

    index: int | None
    kind: Kind
    stage: str
    reason: str
    tokens_before: int
    tokens_after: int
    before: str | None
    after: str | None


class Comparison(msgspec.Struct, frozen=True):
    """A request before and after. `bytes_before` and `bytes_after` are sizes of the bodies; `shaping` are the settings
    that it was planned with; `kinds` are the tokens sent, by kind."""

    plan: ContextPlan
    bytes_before: int
    bytes_after: int
    unchanged: bool
    kinds: dict[Kind, int]
    shaping: ShapingSettings
    messages: list[Compared]


def asked_of(data: bytes) -> Asked:
    """Read what was asked. Raises InvalidRequest."""
    try:
        return msgspec.json.decode(data, type=Asked)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(f"Cannot read what to plan: {error}. See /schema/openapi.json.") from error


def as_sent(bodies: Bodies, role: str, *, shaped: bool) -> Comparison:
    """A kept request, as it was sent: the plan was carried out where it was `shaped`. `role` is that of the message
    with the summary."""
    shaping = bodies.shaping
    if not shaped:
        shaping = msgspec.structs.replace(shaping, plan=untouched(shaping.plan))
    return _comparison(shaping, bodies.in_gap, role, bodies.sent)


class Preview:
    """Plans requests for the pages, with what the process knows of its models and upstreams."""

    def __init__(self, decider: Decider, calls: Calls, bounds: Bounds) -> None:
        self._decider, self._calls, self._bounds = decider, calls, bounds

    def plan(self, asked: Asked, kept: Kept | None = None) -> Comparison:
        """What would be sent of the body asked about, or of a `kept` request, which has bodies. A summary is not
        fetched: where one is wanted, the note stands. Raises InvalidRequest for a body or settings that cannot be read,
        UnknownModel, BodyTooLarge."""
        bodies = None if kept is None else kept.bodies
        body = bytes(asked.body) if bodies is None else bodies.received
        check = self._bounds.check_values
        check(body)
        dialect = recognized(body) if bodies is None else bodies.shaping.dialect
        try:
            reading = self._decider.read(body, b"", dialect, check)
        except Unreadable as error:
            raise InvalidRequest(f"This request cannot be planned: it is {error}.") from error
        request = reading.request
        self._bounds.check_messages(request)
        upstream = self._calls.route(request.model or None)
        profile, hint = (asked.profile, "") if kept is None else (kept.exchange.profile, kept.exchange.hint)
        chosen = _changed(self._decider.choose(request, upstream, profile, hint), asked.shaping)
        limit = _resized(self._decider.limits.known(upstream.name, request.model), asked.context_size)
        shaping = self._decider.decide(reading, upstream, chosen, limit, dialect)
        role = summary_role(upstream, request.model)
        return _comparison(shaping, None, role, outgoing(shaping, None, role, include_usage=False))


def _changed(chosen: Chosen, settings: Mapping[str, Any]) -> Chosen:
    """The same choice with other settings of the policy. Raises InvalidRequest."""
    if not settings:
        return chosen
    whole = {**msgspec.to_builtins(chosen.policy.shaping), **settings}
    try:
        shaping = msgspec.convert(whole, ShapingSettings)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"shaping: {error}. See the table [shaping] of the configuration.") from error
    return msgspec.structs.replace(chosen, policy=msgspec.structs.replace(chosen.policy, shaping=shaping))


def _resized(limit: Limit, context_size: int | None) -> Limit:
    """The limit of a model with another window."""
    if context_size is None:
        return limit
    if context_size < 1:
        raise InvalidRequest("context_size must be 1 or more tokens.", param="context_size")
    output = min(limit.max_output_tokens, max(1, context_size // 2))
    return msgspec.structs.replace(
        limit, context_size=context_size, max_output_tokens=output, max_input_tokens=None, detail="chosen on the page"
    )


def _comparison(shaping: Shaping, summary: str | None, role: str, sent: bytes) -> Comparison:
    of, request, announced = sketch(shaping), shaping.request, shaping.plan.announce
    own = of.counted(announced.tokens) if announced is not None and announced.own else 0
    after = apply(request.messages, shaping.plan, summary, role, shaping.dialect.format)
    return Comparison(
        plan=explain(shaping, cached=summary is not None),
        bytes_before=len(request.body),
        bytes_after=len(sent),
        unchanged=sent == request.body,
        kinds=by_kind(of),
        shaping=shaping.policy.shaping,
        messages=[*_rows(request.messages, [*messages(of)], shaping.plan, after, by_kind(of), own)],
    )


def _rows(
    raws: Any, figures: list[MessageFigures], plan: Plan, after: list[bytes | Raw], kinds: Mapping[Kind, int], own: int
) -> Iterator[Compared]:
    """The messages of both sides in their order, the gap where it stands. `own`: tokens of the announcement as a
    message."""
    gap, sent = plan.gap, iter(after)
    gone = {edit.index for edit in plan.edits if edit.stage in ("dropped", "summarized")}
    announced_at = plan.announce.index if plan.announce is not None and own else None
    # The text in the gap is a message of its own.
    has_own = len(after) - (announced_at is not None) > len(raws) - len(gone)
    for i, raw in enumerate(raws):
        if announced_at == i:
            yield Compared(None, "system", "", "the announcement", 0, own, None, _text(bytes(next(sent))))
        if has_own and gap is not None and gap.index == i:
            yield _in_gap(next(sent), kinds)
        yield _row(i, raw, figures[i], None if i in gone else next(sent))
    if has_own and gap is not None and gap.index >= len(raws):
        yield _in_gap(next(sent), kinds)


def _row(i: int, raw: bytes | Raw, of: MessageFigures, sent: bytes | Raw | None) -> Compared:
    before = bytes(raw)
    after = None if sent is None or sent is raw or bytes(sent) == before else _text(bytes(sent))
    return Compared(i, of.kind, of.stage, of.reason, of.before, of.after, _text(before), after)


def _in_gap(raw: bytes | Raw, kinds: Mapping[Kind, int]) -> Compared:
    tokens = kinds["extract"] + kinds["summary"]
    return Compared(None, "summary", "", "stands for what was removed", 0, tokens, None, _text(bytes(raw)))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
