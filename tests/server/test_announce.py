"""What a server says when it starts and stops: three lines for a person, events in a log that is JSON."""

from __future__ import annotations

import asyncio
import re
import signal

import pytest

from tests.support.chat import COMPLETION, post
from tests.support.conversations import chat
from tests.support.scripted import STALL, ScriptedUpstream, closed_port, json_reply, sse_reply
from tests.support.served import serving
from trimtab import __version__

pytestmark = pytest.mark.anyio

BODY = {"model": "m", "messages": chat(0)}
QUICK = '[limits]\ndiscover = false\nask_usage = "never"\n[server]\ndrain_s = {}\ngrace_s = {}\n'


async def test_it_says_in_three_lines_what_a_person_wants_to_know() -> None:
    toml = '[telemetry]\nlog_format = "pretty"\n[server]\ndrain_s = 0.0\n'
    async with ScriptedUpstream(json_reply(COMPLETION)) as upstream, serving(upstream.base_url, toml) as served:
        assert (await post(served.url, BODY)).status == 200
        written = (served.folder / "errors").read_text().splitlines()
        served.kill(signal.SIGINT)
        await served.ended(10)
        after = (served.folder / "errors").read_text().splitlines()[len(written) :]
        log = served.log
    assert written == [
        f"trimtab {__version__} listens on {served.base_url} and sends to {upstream.base_url}",
        f"configuration: {served.folder}/trimtab.toml; summaries: off",
        f"health: {served.url}/healthz/ready, metrics: {served.url}/metrics, page: {served.url}/ui",
    ]
    assert after[0].startswith("stopping: new requests are taken for 0 s more")
    assert after[1:] == ["stopped"]
    assert re.fullmatch(r"\d\d:\d\d:\d\d 200 m passed  \d+ of [\d,]+ tokens  \d+\.\d ms  [0-9a-f]{32}", log.strip())


async def test_in_json_its_life_is_told_by_events() -> None:
    nobody = f'[redis]\nurl = "redis://127.0.0.1:{closed_port()}/0"\n[compaction]\nmodel = "same"\n'
    async with (
        ScriptedUpstream(sse_reply(b"{}", STALL)) as upstream,
        serving(upstream.base_url, QUICK.format(0, 0.2) + nobody) as served,
    ):
        hanging = asyncio.ensure_future(post(served.url, {**BODY, "stream": True}))
        while not upstream.requests:  # noqa: ASYNC110  the upstream is a list of what came
            await asyncio.sleep(0.01)
        served.kill(signal.SIGTERM)
        assert await served.ended(20) == 0
        await hanging
        events = {name: served.records(name) for name in ("started", "draining", "stopped")}
        assert served.errors == ""
    (started,), (draining,), (stopped,) = events.values()
    assert (started["version"], started["url"], started["level"]) == (__version__, served.base_url, "info")
    assert started["upstreams"] == {"test": upstream.base_url}
    assert started["config"].endswith("trimtab.toml")
    assert started["summaries"] == "by the model of each request"
    assert started["redis"].startswith("Redis does not answer")
    assert (draining["in_flight"], draining["grace_s"]) == (1, 0.2)
    assert stopped["cut_off"] == 1
