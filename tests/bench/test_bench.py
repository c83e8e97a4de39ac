"""The harness itself: the load generator understands what the upstream says, the table shows what was measured."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import bpe_openai
import msgspec
import pytest
import uvloop

from tests.bench import bodies, calls, cold, load, measure, scale, servers, table


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Server]:
    started = servers.start_upstream(Path(tmp_path_factory.mktemp("bench")))
    yield started
    started.stop()


def test_a_body_is_as_large_as_asked_and_always_the_same() -> None:
    for size in (2_000, 100_000, 1_000_000):
        body = bodies.body("m", size)
        assert abs(len(body) - size) < 1_000
        assert body == bodies.body("m", size)


def test_a_body_said_to_have_100_000_tokens_has_them() -> None:
    encode = bpe_openai.get_encoding("o200k_base").encode
    request = msgspec.json.decode(bodies.body("m", bodies.SIZE_OF_100K_TOKENS))
    calls = [call["function"] for m in request["messages"] for call in m.get("tool_calls", ())]
    texts = [*(m["content"] for m in request["messages"]), *(c["name"] + c["arguments"] for c in calls)]
    tokens = sum(len(encode(text)) for text in texts) + 4 * len(request["messages"])
    assert tokens == pytest.approx(100_000, rel=0.02)


def test_a_conversation_made_new_differs_in_every_message_and_keeps_its_size() -> None:
    template = bodies.body("m", 20_000)
    made = bodies.unseen(template, 7)
    assert len(made) == len(template)
    assert bodies.NONCE not in made


def test_every_answer_is_counted_once(upstream: servers.Server) -> None:
    done = uvloop.run(load.throughput(upstream, bodies.body("m", 20_000), 4, 0.1))
    assert done.requests > 4
    assert done.errors == 0


def test_latency_is_that_of_whole_answers(upstream: servers.Server) -> None:
    found = load.latencies([upstream], lambda _: bodies.body("m", 2_000), rounds=3)
    assert len(found["direct"]) == 3


def test_a_cold_core_is_measured_for_each_relay() -> None:
    assert set(cold.measure(2_000, rounds=1)) == {"trimtab", "floor", "bare"}


def test_calls_of_functions_are_counted_for_one_request(upstream: servers.Server, tmp_path: Path) -> None:
    found = calls.count(servers.start_floor, upstream.origin, tmp_path, bodies.body("m", 2_000), stream=False)
    assert 20 < found["aiohttp"] < 500


def test_the_table_shows_what_was_measured_and_nothing_else() -> None:
    speed = {"trimtab": measure.Speed(700, 10, 0.7, 1.4, 0)._asdict()}
    text = table.render({"speed": {"2 KB": speed}})
    assert "requests/s of the floor's, 2 KB" in text
    assert "LiteLLM" not in text


def test_the_model_of_scale_names_what_is_full_first() -> None:
    cost = scale.Cost(proxy=0.001, upstream=0.0001, generator=0.0002, redis=0.00001, commands=0.5)
    assert scale.predicted(cost, processes=1, cores=8) == (pytest.approx(1_000), "processes")
    assert scale.predicted(cost, processes=4, cores=8) == (pytest.approx(4_000), "processes")
    assert scale.predicted(cost, processes=16, cores=8) == (pytest.approx(5_000), "generator")
    assert scale.predicted(cost, processes=4, cores=2) == (pytest.approx(2 / 0.00131), "cores")
    assert scale.carried(cost, size=100_000) == pytest.approx((700, 7_000, 200, 12_500 / 700))


def test_processes_behind_one_port_all_answer() -> None:
    run = scale.measure(scale.CASES[-1], count=2, seconds=0.3)
    assert run.errors == 0
    assert run.requests_a_second > 0
    assert run.cost.commands > 1
