"""The parts put together: what is shared with other replicas, and an orderly end."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from tests.support.chat import WINDOW, post
from tests.support.conversations import chat
from tests.support.running import running, sample
from tests.support.scripted import Pause, Received, ScriptedUpstream, Step, closed_port, json_reply
from tests.support.summaries import SUMMARIES, writing_as_writer
from tests.support.valkey import Valkey
from trimtab.errors import ConfigError
from trimtab.server.parts import Parts
from trimtab.settings import parse
from trimtab.store.memory import MemoryStore
from trimtab.store.redis import RedisStore

pytestmark = pytest.mark.anyio

ALONE = ""
SHARED = "Redis answers"
AWAY = "Redis does not answer, summaries and lessons stay in this process until it does"


@pytest.fixture(scope="module")
def redis() -> Iterator[str]:
    server = Valkey()
    yield f'[redis]\nurl = "redis://127.0.0.1:{server.port}/0"\n'
    server.stop()


def parts(toml: str = "", **more: Any) -> Parts:
    return Parts(parse(toml, {}), log=StringIO(), **more)


async def test_it_reports_what_is_shared(redis: str) -> None:
    nobody = f'[redis]\nurl = "redis://127.0.0.1:{closed_port()}/0"\n'
    for toml, reported in (("", ALONE), (redis, SHARED), (nobody, AWAY)):
        made = parts(toml)
        assert await made.start() == reported
        await made.aclose()


async def test_without_redis_the_store_is_in_this_process() -> None:
    made = parts()
    assert isinstance(made.store, MemoryStore)
    assert "trimtab_redis_up{" not in made.telemetry.render()[0].decode()
    await made.aclose()


@pytest.mark.parametrize(
    ("url", "mode"),
    [
        ("redis://127.0.0.1:{}/0", "standalone"),
        ("redis+sentinel://127.0.0.1:{}/name", "sentinel"),
        ("redis+cluster://127.0.0.1:{}", "cluster"),
    ],
)
async def test_the_state_of_redis_is_a_metric(url: str, mode: str) -> None:
    made = parts(f'[redis]\nurl = "{url.format(closed_port())}"\n')
    assert isinstance(made.store, RedisStore)
    for _ in range(5):
        await made.store.get_many(["k"], 60)
    shown = made.telemetry.render()[0].decode()
    assert sample(shown, f'trimtab_redis_up{{mode="{mode}"}}') == 0
    assert sample(shown, "trimtab_redis_errors_total") > 0
    await made.aclose()


async def test_without_a_summary_model_there_is_no_summarizer() -> None:
    without, with_one = parts(), parts("[compaction]\n")
    assert without.summarizer is None
    assert with_one.summarizer is not None
    await without.aclose()
    await with_one.aclose()


async def test_prompts_of_ones_own_that_are_not_there_are_not_silently_replaced(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a directory"):
        parts(f'[compaction]\nprompts = "{tmp_path}/nope"\n')
    made = parts(f'[compaction]\nprompts = "{tmp_path}"\n')
    assert made.summarizer is not None
    await made.aclose()


async def test_replicas_share_summaries_and_learned_factors(redis: str) -> None:
    body = {"model": "m", "messages": chat(16)}
    toml = SUMMARIES + "precompact_share = 1.0\n" + redis
    async with (
        ScriptedUpstream(writing_as_writer) as upstream,
        running(upstream.base_url, toml) as one,
        running(upstream.base_url, toml) as two,
    ):
        first = await post(one.url, body, authorization="Bearer k")
        second = await post(two.url, body, authorization="Bearer k")
        stranger = await post(two.url, body, authorization="Bearer other")
    sent = [r.json()["messages"] for r in upstream.requests if r.json()["model"] == "m"]
    assert first.headers["x-trimtab-summary"] == "miss"
    assert second.headers["x-trimtab-summary"] == "hit"
    assert stranger.headers["x-trimtab-summary"] == "miss"
    assert sent[0] == sent[1]


async def test_a_factor_that_moved_is_a_metric() -> None:
    def counted(received: Received) -> list[Step]:
        usage = {"prompt_tokens": len(received.body) // 2, "completion_tokens": 1}
        return json_reply({"choices": [], "usage": usage})

    async with ScriptedUpstream(counted) as upstream, running(upstream.base_url, WINDOW) as proxy:
        for _ in range(6):
            await post(proxy.url, {"model": "m", "messages": chat(3)})
        metrics = await proxy.metrics()
        factor = proxy.parts.limits.factor("test", "m")
    assert sample(metrics, 'trimtab_calibration_factor{model="m",upstream="test"}') == factor > 1.5


async def test_the_end_lets_a_summary_under_way_finish_and_may_come_twice() -> None:
    def slow(received: Received) -> list[Step]:
        return [Pause(0.5), *writing_as_writer(received)]

    async with ScriptedUpstream(slow) as upstream:
        async with running(upstream.base_url, SUMMARIES) as proxy:
            made, log = proxy.parts, proxy.log
            answer = await post(proxy.url, {"model": "m", "messages": chat(11)})
        await made.aclose()
    assert answer.headers["x-trimtab-summary"] == "background"
    assert '"event":"summary"' in log.getvalue()
