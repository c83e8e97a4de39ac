"""Sources by precedence, quick answers, and the events that are reported."""

import asyncio
import json
from pathlib import Path
from typing import get_args

import pytest

from tests.support.clock import Clock
from trimtab.limits import Caller, Event, Limits, LimitsSettings, ModelSettings, events
from trimtab.store.memory import MemoryStore


def test_sources_in_order() -> None:
    models = {"gpt-4o": ModelSettings(context_size=50_000), "tiny*": ModelSettings(budget=5_000)}
    limits = Limits(models, environment=ModelSettings(context_size=70_000))
    assert (limits.known("u", "gpt-4o").context_size, limits.known("u", "gpt-4o").source) == (
        50_000,
        "configured",
    )
    assert limits.known("u", "gpt-4o-mini").source == "environment"
    assert (limits.known("u", "tiny-1").budget, limits.known("u", "tiny-1").context_size) == (5_000, 70_000)
    assert Limits().known("u", "gpt-4o").detail == "gpt-4o"
    assert Limits().known("u", "gpt-4o").prices is not None
    assert Limits().known("u", "what-is-this").source == "default"


def test_an_exact_name_beats_its_family() -> None:
    models = {
        "gpt-5.9-custom": ModelSettings(context_size=1_050_000),
        "gpt-5*": ModelSettings(context_size=272_000),
    }
    assert Limits(models).known("u", "gpt-5.9-custom").context_size == 1_050_000


def test_a_known_answer_is_the_same_object() -> None:
    limits = Limits()
    assert limits.known("u", "gpt-4o") is limits.known("u", "gpt-4o")


async def says_4096(upstream: str, path: str, body: bytes | None = None) -> bytes | None:
    return b'{"data": [{"id": "gpt-4o", "max_model_len": 4096}]}' if path == "models" else None


async def must_not_ask(upstream: str, path: str, body: bytes | None = None) -> bytes | None:
    raise AssertionError(path)


@pytest.mark.anyio
async def test_what_the_upstream_says_stands_between_environment_and_table() -> None:
    limits = Limits({"known": ModelSettings(context_size=9_000), "gpt-*": ModelSettings(budget=3_000)})
    limit = await limits.limit_of("u", "gpt-4o", says_4096)
    assert (limit.context_size, limit.source, limit.budget) == (4_096, "discovered", 3_000)
    assert limit.prices is not None
    assert limits.known("u", "gpt-4o") == limit
    assert limits.known("elsewhere", "gpt-4o").source == "bundled"
    await limits.aclose()


@pytest.mark.anyio
async def test_where_the_window_is_written_nothing_is_asked() -> None:
    limits = Limits({"m": ModelSettings(context_size=9_000)})
    assert (await limits.limit_of("u", "m", must_not_ask)).context_size == 9_000
    off = Limits(settings=LimitsSettings(discover=False))
    assert (await off.limit_of("u", "m", must_not_ask)).source == "default"


@pytest.mark.anyio
async def test_a_learned_limit_lowers_a_configured_one_and_is_seen() -> None:
    seen: list[Event] = []
    limits = Limits({"m": ModelSettings(context_size=100_000)}, notify=seen.append)
    limits.learn("u", "m", 32_768)
    limits.learn("u", "m", 50_000)
    assert (limits.known("u", "m").context_size, limits.known("u", "m").source) == (50_000, "learned")  # the newest
    limits.learn("u", "m", 200_000)
    assert [event.kind for event in seen] == ["learned_contradicts", "learned_contradicts", "learned_ignored"]


@pytest.mark.anyio
async def test_a_number_that_any_source_states_binds_everyone() -> None:
    limits = Limits({"gpt-4o": ModelSettings(context_size=1_000_000)})
    limits.learn("u", "gpt-4o", 100_000, Caller(b"alice"))
    assert limits.known("u", "gpt-4o", Caller(b"bob")).source == "configured"
    limits.learn("u", "gpt-4o", 128_000, Caller(b"alice"))  # as in the bundled table
    assert limits.known("u", "gpt-4o", Caller(b"bob")).context_size == 128_000


@pytest.mark.anyio
async def test_a_larger_listing_takes_a_lesson_back() -> None:
    listed, clock = {"window": 16_000}, Clock()

    async def fetch(upstream: str, path: str, body: bytes | None = None) -> bytes | None:
        entry = {"id": "m", "max_model_len": listed["window"]}
        return json.dumps({"data": [entry]}).encode() if path == "models" else None

    limits = Limits(settings=LimitsSettings(refresh_s=10.0), clock=clock)
    assert (await limits.limit_of("u", "m", fetch)).context_size == 16_000
    limits.learn("u", "m", 8_000, agreed=True)
    assert (await limits.limit_of("u", "m", fetch)).context_size == 8_000
    listed["window"], clock.now = 32_000, clock.now + 11
    for _ in range(2):
        limit = await limits.limit_of("u", "m", fetch)
        await asyncio.sleep(0.01)
    assert (limit.context_size, limit.source) == (32_000, "discovered")


@pytest.mark.anyio
async def test_the_count_in_a_refusal_calibrates_but_was_not_accepted() -> None:
    limits = Limits()
    limits.observe("u", "m", 50_000, 80_000, accepted=False)
    assert limits.factor("u", "m") >= 1.6
    limits.learn("u", "m", 64_000)
    assert limits.known("u", "m").source == "learned"
    limits.observe("u", "m", 50_000, 70_000)
    assert limits.known("u", "m").source == "default"


def test_each_kind_of_event_is_reported_by_limits_or_calibration() -> None:
    package = Path(events.__file__).parents[1]
    sources = [p for room in ("limits", "calibration") for p in (package / room).glob("*.py") if p.name != "events.py"]
    text = "".join(path.read_text() for path in sources)
    assert [kind for kind in get_args(events.Kind) if f'"{kind}"' not in text] == []


@pytest.mark.anyio
async def test_a_limit_is_settled_while_nobody_is_to_be_asked_for_it() -> None:
    clock = Clock()
    written, limits = Limits({"m": ModelSettings(context_size=9_000)}), Limits(clock=clock)
    assert written.settled("u", "m") is written.known("u", "m")
    assert limits.settled("u", "gpt-4o") is None
    limit = await limits.limit_of("u", "gpt-4o", says_4096)
    assert limits.settled("u", "gpt-4o") is limit
    limits.learn("u", "gpt-4o", 3_000, agreed=True)
    assert limits.settled("u", "gpt-4o") is None, "a listing may end the lesson"
    written.learn("u", "m", 3_000, agreed=True)
    lesson = written.settled("u", "m")
    assert lesson is not None
    assert lesson.source == "learned"
    clock.now += 10_000
    assert limits.settled("u", "elsewhere") is None
    await limits.aclose()


@pytest.mark.anyio
async def test_a_limit_is_not_settled_while_the_store_is_to_be_read() -> None:
    clock = Clock()
    limits = Limits({"m": ModelSettings(context_size=9_000)}, store=MemoryStore(), clock=clock)
    assert limits.settled("u", "m") is None
    limit = await limits.limit_of("u", "m", must_not_ask)
    assert limits.settled("u", "m") is limit
    clock.now += 31
    assert limits.settled("u", "m") is None
    await limits.aclose()
