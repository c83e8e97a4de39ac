"""SIGHUP on a real process: what holds from then on, what stays, and that no stream is dropped."""

from __future__ import annotations

import asyncio
import hashlib
import re
import signal
from typing import Any

import aiohttp
import pytest

from tests.support.chat import COMPLETION, Call, post
from tests.support.conversations import chat
from tests.support.scripted import Pause, Received, ScriptedUpstream, Step, json_reply, sse_reply
from tests.support.served import CONFIG, Served, serving

pytestmark = pytest.mark.anyio

EVENT = b'{"choices":[{"index":0,"delta":{"content":"a"}}]}'
BASE = '[limits]\ndiscover = false\nask_usage = "never"\n'
BODY = {"model": "m", "messages": chat(3)}


def answering(received: Received) -> list[Step]:
    if received.json().get("stream"):
        return sse_reply(EVENT, *[step for _ in range(20) for step in (Pause(0.1), EVENT)])
    return json_reply(COMPLETION)


async def reloaded(served: Served, upstream: ScriptedUpstream, toml: str, event: str = "reloaded") -> dict[str, Any]:
    """Write the file anew, send the signal, and return the line it made."""
    before = len(served.records(event))
    (served.folder / "trimtab.toml").write_text(CONFIG.format(upstream=upstream.base_url) + toml)
    served.kill(signal.SIGHUP)
    for _ in range(600):
        if len(found := served.records(event)) > before:
            return found[-1]
        await asyncio.sleep(0.05)
    raise TimeoutError(served.log + served.errors)


async def test_keys_models_and_policy_hold_from_then_on_and_a_stream_goes_on() -> None:
    key = hashlib.sha256(b"k").hexdigest()
    more = f'[server]\nclient_keys = ["{key}"]\n[models.m]\ncontext_size = 4000\n[shaping]\nmode = "observe"\n'
    async with ScriptedUpstream(answering) as upstream, serving(upstream.base_url, BASE) as served:
        first = await post(served.url, BODY)
        stream = asyncio.ensure_future(post(served.url, {**BODY, "stream": True}))
        while len(upstream.requests) < 2:  # noqa: ASYNC110  the upstream is a list of what came
            await asyncio.sleep(0.01)
        line = await reloaded(served, upstream, 'api_key = "sk-new"\n' + BASE + more)
        refused, taken = await post(served.url, BODY), await post(served.url, BODY, authorization="Bearer k")
        assert not stream.done()
        whole: Call = await stream
        outcomes = [record["outcome"] for record in served.records()]
    assert (first.status, refused.status, taken.status) == (200, 401, 200)
    assert (line["level"], line.get("needs_restart")) == ("info", None)
    assert taken.headers["x-trimtab-limit-source"] == "configured"
    assert upstream.requests[-1].header(b"authorization") == b"Bearer sk-new"
    assert whole.body.count(b"data: ") == 22
    assert whole.body.endswith(b"data: [DONE]\n\n")
    assert "observed" in outcomes


async def test_an_upstream_that_a_reload_adds_has_its_series_before_its_first_fault() -> None:
    async with ScriptedUpstream(answering) as upstream, serving(upstream.base_url, BASE) as served:
        second = f'[[upstreams]]\nname = "second"\nbase_url = "{upstream.base_url}"\nmodels = ["other"]\n'
        await reloaded(served, upstream, 'models = ["*"]\n' + second + BASE)
        async with aiohttp.ClientSession() as session, session.get(served.url + "/metrics") as answer:
            scraped = await answer.text()
    assert re.search(r'responses_total\{code="none",upstream="second"\} 0\.0', scraped)


async def test_a_file_with_errors_is_refused_and_the_old_one_stays() -> None:
    async with ScriptedUpstream(answering) as upstream, serving(upstream.base_url, BASE) as served:
        for wrong, reason in (
            ("[server]\nprot = 1\n[shaping]\ntarget = 7\n", "prot is not a known key"),
            ('[compaction]\nmodel = "same"\n[limits', "not valid TOML"),
        ):
            line = await reloaded(served, upstream, wrong, "reload_refused")
            assert (line["level"], reason in line["reason"]) == ("error", True)
        after = await post(served.url, BODY)
    assert after.status == 200


async def test_what_needs_a_restart_is_named_and_stays_as_it_was() -> None:
    more = '[compaction]\nmodel = "same"\n[server]\nmax_body_mb = 1\n'
    async with ScriptedUpstream(answering) as upstream, serving(upstream.base_url, BASE) as served:
        line = await reloaded(served, upstream, BASE + more)
        assert (await post(served.url, BODY)).status == 200
    assert line["needs_restart"] == ["server", "compaction"]


async def test_keys_are_not_exposed_by_a_reload() -> None:
    async with ScriptedUpstream(answering) as upstream, serving(upstream.base_url, BASE, host="0.0.0.0") as served:
        line = await reloaded(served, upstream, 'api_key = "sk-new"\n' + BASE, "reload_refused")
        answer = await post(served.url, BODY)
    assert "client_keys" in line["reason"]
    assert "sk-new" not in str(line)
    assert answer.status == 200
    assert upstream.requests[-1].header(b"authorization") is None
