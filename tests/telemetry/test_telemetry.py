"""The three readings of one record, together."""

from __future__ import annotations

import asyncio
import io
import json
import shutil
import subprocess

import pytest
from msgspec.structs import replace

from trimtab.telemetry import SETTLE_S, TelemetrySettings, open_telemetry

from .exchanges import PASSED, REFUSED, RUN, SHAPED


def test_every_exchange_is_counted_and_written_once() -> None:
    stream = io.StringIO()
    telemetry = open_telemetry(TelemetrySettings(), version="1.2.3", models=["gpt-4o"], stream=stream)
    telemetry.observe(SHAPED, telemetry.trace.start({}))
    telemetry.summary_run(RUN)
    body, content_type = telemetry.render()
    assert content_type.startswith("text/plain")
    assert b'trimtab_requests_total{model="gpt-4o",outcome="shaped"} 1.0' in body
    assert b'trimtab_summarizer_calls_total{outcome="made"} 1.0' in body
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["exchange", "summary"]
    telemetry.close()


@pytest.mark.anyio
async def test_what_a_loop_can_do_later_is_put_off_for_a_moment_and_not_past_a_scrape() -> None:
    stream = io.StringIO()
    telemetry = open_telemetry(TelemetrySettings(), models=["gpt-4o"], stream=stream)
    telemetry.watch_load(lambda: (1, 20, 300))
    for _ in range(3):
        telemetry.observe(PASSED)
    assert stream.getvalue() == ""
    assert b'trimtab_requests_total{model="gpt-4o",outcome="passed"} 3.0' in telemetry.render()[0]
    assert b"trimtab_inflight_requests 1.0" in telemetry.render()[0]
    assert stream.getvalue().count("\n") == 3
    telemetry.observe(SHAPED)
    await asyncio.sleep(3 * SETTLE_S)
    assert stream.getvalue().count("\n") == 4
    for _ in range(1_000):  # faster than a moment: not held back without end
        telemetry.observe(PASSED)
    assert stream.getvalue().count("\n") > 900
    telemetry.close()
    assert stream.getvalue().count("\n") == 1_004


def test_models_an_upstream_lists_have_their_own_label() -> None:
    telemetry = open_telemetry(TelemetrySettings(), stream=io.StringIO())
    telemetry.admit(["llama3:8b"])
    for model in ("llama3:8b", "who-knows"):
        telemetry.observe(replace(PASSED, model=model, outcome="refused", calls=()))
    body, _ = telemetry.render()
    assert b'{model="llama3:8b",outcome="refused"} 1.0' in body
    assert b'{model="other",outcome="refused"} 1.0' in body
    assert b"who-knows" not in body


def test_two_in_one_process_do_not_meet() -> None:
    first, second = (open_telemetry(TelemetrySettings(), stream=io.StringIO()) for _ in range(2))
    first.observe(PASSED)
    assert second.render()[0] != first.render()[0]


def test_redis_is_asked_at_each_scrape_and_only_where_there_is_one() -> None:
    telemetry = open_telemetry(TelemetrySettings(), stream=io.StringIO())
    assert b"trimtab_redis_up{" not in telemetry.render()[0]
    there = [True]
    telemetry.watch_redis("cluster", lambda: there[0])
    assert b'trimtab_redis_up{mode="cluster"} 1.0' in telemetry.render()[0]
    there[0] = False
    assert b'trimtab_redis_up{mode="cluster"} 0.0' in telemetry.render()[0]


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [("", "text/plain"), ("application/openmetrics-text;version=1.0.0", "application/openmetrics-text")],
)
def test_the_scraper_chooses_the_format(accept: str, content_type: str) -> None:
    body, found = _scraped(accept)
    assert found.startswith(content_type)
    assert b'trimtab_requests_total{model="gpt-4o",outcome="shaped"} 1.0' in body


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_finds_nothing_wrong() -> None:
    judged = subprocess.run(["promtool", "check", "metrics"], input=_scraped()[0], capture_output=True, check=False)
    assert (judged.returncode, judged.stdout + judged.stderr) == (0, b"")


def _scraped(accept: str = "") -> tuple[bytes, str]:
    telemetry = open_telemetry(TelemetrySettings(), version="1.2.3", models=["gpt-4o"], stream=io.StringIO())
    for exchange in (PASSED, SHAPED, REFUSED):
        telemetry.observe(exchange)
    telemetry.summary_run(RUN)
    telemetry.watch_redis("standalone", lambda: True)
    telemetry.metrics.calibrated("openai", "gpt-4o", 1.1)
    return telemetry.render(accept)
