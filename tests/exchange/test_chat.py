"""One chat completion: a bug of ours never stops a conversation, and a mark never leaves us.

The way of a request through the running proxy is in test_gateway.py."""

from __future__ import annotations

import msgspec
import pytest

from tests.exchange.requests import Given, Kept
from tests.exchange.started import ApplyFails, PlanFails, body, started
from tests.support.chat import COMPLETION
from tests.support.conversations import agent_run
from tests.support.scripted import json_reply
from trimtab.exchange.chat import ChatExchange
from trimtab.exchange.decider import Decider

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("kind", "part"), [(PlanFails, "plan"), (ApplyFails, "apply")])
async def test_a_bug_of_ours_is_logged_and_the_clients_own_bytes_go_on(kind: type[Decider], part: str) -> None:
    given, down = body(agent_run(30), max_tokens=100), Kept()
    async with started(ChatExchange, json_reply(COMPLETION), kind=kind) as (asked, notes, upstream, log):
        await asked.run(given, down)
    assert upstream.requests[0].body == await given.read()
    assert (down.status, down.ended) == (200, True)
    assert notes.fail_open == part
    assert '"event":"bug"' in log.getvalue()


@pytest.mark.parametrize(
    ("headers", "outcome"),
    [({}, "shaped"), ({"x_trimtab_bypass": "1"}, "bypassed"), ({"x_trimtab_observe": "1"}, "observed")],
)
async def test_an_exchange_notes_what_became_of_it(headers: dict[str, str], outcome: str) -> None:
    async with started(ChatExchange, json_reply(COMPLETION), **headers) as (asked, notes, _, _log):
        await asked.run(body(agent_run(30)), Kept())
    assert (notes.outcome, notes.model, notes.upstream) == (outcome, "m", "up")


@pytest.mark.parametrize("headers", [{}, {"x_trimtab_bypass": "1"}, {"x_trimtab_observe": "1"}])
@pytest.mark.parametrize("kind", [Decider, PlanFails])
async def test_a_mark_never_reaches_an_upstream(kind: type[Decider], headers: dict[str, str]) -> None:
    raw = b'{"model": "m", "messages": [{"role": "user", "content": "x", "pinned": true}] }'
    async with started(ChatExchange, json_reply(COMPLETION), kind=kind, **headers) as (asked, _, upstream, _log):
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
    async with started(ChatExchange, json_reply(COMPLETION)) as (asked, _, upstream, _log):
        await asked.run(Given(body), Kept())
    assert b"pinned" not in msgspec.json.encode(
        msgspec.json.decode(upstream.requests[0].body, type=dict[str, msgspec.Raw])["messages"]
    )


async def test_a_model_that_is_no_name_passes_without_being_looked_up_or_logged() -> None:
    long = msgspec.json.encode({"model": "m" * 5_000_000, "messages": [{"role": "user", "content": "hi"}]})
    async with started(ChatExchange, json_reply(COMPLETION)) as (asked, notes, upstream, log):
        await asked.run(Given(long), Kept())
    assert upstream.requests[0].body == long
    assert (notes.outcome, notes.model) == ("unparsed", "")
    assert len(log.getvalue()) < 10_000
