"""One chat completion: a bug of ours never stops a conversation, and its plan is explained without a call.

The way of a request through the running proxy is in test_gateway.py."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from io import StringIO
from typing import Any

import msgspec
import pytest

from tests.exchange.requests import Given, Kept, calling, incoming
from tests.support.chat import COMPLETION
from tests.support.conversations import agent_run, chat
from tests.support.scripted import Script, ScriptedUpstream, json_reply
from trimtab.context.policy import ShapingSettings
from trimtab.errors import InvalidRequest, UpstreamError
from trimtab.exchange.chat import ChatExchange, Services
from trimtab.exchange.decide import Decider, Shaping
from trimtab.exchange.notes import Notes
from trimtab.exchange.policies import PROFILES, Policies
from trimtab.limits import Limits, ModelSettings
from trimtab.telemetry import TelemetrySettings, open_telemetry

pytestmark = pytest.mark.anyio

SMALL = {"*": ModelSettings(context_size=8_192, max_output_tokens=1_024)}


class PlanFails(Decider):
    """A decider with a bug."""

    def decide(self, *_: Any) -> Shaping:
        raise ZeroDivisionError


class ApplyFails(Decider):
    """A decider whose decisions cannot be applied."""

    def decide(self, *asked: Any) -> Shaping:
        return msgspec.structs.replace(super().decide(*asked), max_tokens="many")  # compared with a number


@contextlib.asynccontextmanager
async def exchange(
    *scripts: Script, kind: type[Decider] = Decider, **headers: str
) -> AsyncIterator[tuple[ChatExchange, Notes, ScriptedUpstream, StringIO]]:
    """An exchange before an upstream with these scripts, its notes, and the log."""
    log, notes = StringIO(), Notes("r", "chat")
    async with calling(*scripts) as (calls, _, upstream):
        limits = Limits(SMALL)
        decider = kind(limits, Policies(ShapingSettings(), PROFILES, None))
        services = Services(calls, decider, open_telemetry(TelemetrySettings(), stream=log))
        yield ChatExchange(services, incoming(**headers), notes), notes, upstream, log
        await limits.aclose()


def body(messages: list[Any], **fields: Any) -> Given:
    return Given(msgspec.json.encode({"model": "m", "messages": messages, **fields}))


@pytest.mark.parametrize(("kind", "part"), [(PlanFails, "plan"), (ApplyFails, "apply")])
async def test_a_bug_of_ours_is_logged_and_the_clients_own_bytes_go_on(kind: type[Decider], part: str) -> None:
    given, down = body(agent_run(30), max_tokens=100), Kept()
    async with exchange(json_reply(COMPLETION), kind=kind) as (asked, notes, upstream, log):
        await asked.run(given, down)
    assert upstream.requests[0].body == await given.read()
    assert (down.status, down.ended) == (200, True)
    assert notes.fail_open == part
    assert '"event":"bug"' in log.getvalue()


async def test_a_plan_is_explained_without_a_call() -> None:
    async with exchange() as (asked, notes, upstream, _):
        plan = await asked.plan(body(agent_run(30)))
    assert plan.fits
    assert {edit.stage for edit in plan.edits} == {"cleared"}
    assert (notes.outcome, notes.status) == ("planned", 200)
    assert upstream.requests == []


async def test_a_plan_that_fails_is_an_error() -> None:
    async with exchange(kind=PlanFails) as (asked, _, _upstream, _log):
        with pytest.raises(UpstreamError, match="could not be planned"):
            await asked.plan(body(chat(1)))


async def test_a_body_that_cannot_be_read_cannot_be_planned() -> None:
    async with exchange() as (asked, _, _upstream, _log):
        with pytest.raises(InvalidRequest, match="cannot be planned"):
            await asked.plan(Given(b'{"messages": 5}'))


@pytest.mark.parametrize(
    ("headers", "outcome"),
    [({}, "shaped"), ({"x_trimtab_bypass": "1"}, "bypassed"), ({"x_trimtab_observe": "1"}, "observed")],
)
async def test_an_exchange_notes_what_became_of_it(headers: dict[str, str], outcome: str) -> None:
    async with exchange(json_reply(COMPLETION), **headers) as (asked, notes, _, _log):
        await asked.run(body(agent_run(30)), Kept())
    assert (notes.outcome, notes.model, notes.upstream) == (outcome, "m", "up")


@pytest.mark.parametrize("headers", [{}, {"x_trimtab_bypass": "1"}, {"x_trimtab_observe": "1"}])
@pytest.mark.parametrize("kind", [Decider, PlanFails])
async def test_a_mark_never_reaches_an_upstream(kind: type[Decider], headers: dict[str, str]) -> None:
    raw = b'{"model": "m", "messages": [{"role": "user", "content": "x", "pinned": true}] }'
    async with exchange(json_reply(COMPLETION), kind=kind, **headers) as (asked, _, upstream, _log):
        await asked.run(Given(raw), Kept())
    assert upstream.requests[0].body == raw.replace(b', "pinned": true', b"")


@pytest.mark.parametrize(
    "body",
    [
        b'{"model": "m", "messages": [{"role": "user", "content": "\\ud800", "pinned": true}], "x": [1 ]}',
        b'{"messages": [5, {"pinned": 1}], "model": "m", "messages": [{"role": "user", "content": "", "pinned": 1}]}',
        b'{"model": "m", "m\\u0065ssages": [{"p\\u0069nned": true, "role": "user", "content": "x"}]}',
    ],
)
async def test_a_mark_never_reaches_an_upstream_in_a_body_that_is_hard_to_read(body: bytes) -> None:
    async with exchange(json_reply(COMPLETION)) as (asked, _, upstream, _log):
        await asked.run(Given(body), Kept())
    assert b"pinned" not in msgspec.json.encode(
        msgspec.json.decode(upstream.requests[0].body, type=dict[str, msgspec.Raw])["messages"]
    )
