"""What a scraper reads: of one process, of several, and by promtool's judgement."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from trimtab.telemetry.exposition import render, share_directory
from trimtab.telemetry.labels import Labels
from trimtab.telemetry.metrics import Metrics

from .exchanges import PASSED, REFUSED, RUN, SHAPED

ROOT = Path(__file__).resolve().parents[2]
WORKER = """
from prometheus_client import CollectorRegistry
from trimtab.telemetry.exposition import render
from trimtab.telemetry.labels import Labels
from trimtab.telemetry.metrics import Metrics
from tests.telemetry.exchanges import SHAPED
registry = CollectorRegistry()
metrics = Metrics(registry, Labels(["gpt-4o"]), "1")
metrics.began()
metrics.settle()
metrics.observe(SHAPED)
print(render(registry)[0].decode())
"""


def _one_process() -> CollectorRegistry:
    registry = CollectorRegistry()
    metrics = Metrics(registry, Labels(["gpt-4o"]), "1.2.3")
    for exchange in (PASSED, SHAPED, REFUSED):
        metrics.observe(exchange)
    metrics.summary_run(RUN)
    metrics.redis_up("standalone", True)
    metrics.calibrated("openai", "gpt-4o", 1.1)
    return registry


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [("", "text/plain"), ("application/openmetrics-text;version=1.0.0", "application/openmetrics-text")],
)
def test_the_scraper_chooses_the_format(accept: str, content_type: str) -> None:
    body, found = render(_one_process(), accept)
    assert found.startswith(content_type)
    assert b'trimtab_requests_total{model="gpt-4o",outcome="shaped"} 1.0' in body


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_has_nothing_to_say() -> None:
    body, _ = render(_one_process())
    judged = subprocess.run(["promtool", "check", "metrics"], input=body, capture_output=True, check=False)
    assert (judged.returncode, judged.stdout + judged.stderr) == (0, b"")


def test_several_workers_are_added_up(tmp_path: Path) -> None:
    (tmp_path / "counter_1.db").write_bytes(b"of the run before")
    environment = os.environ | share_directory(tmp_path)
    for _ in range(2):
        worker = subprocess.run(
            [sys.executable, "-c", WORKER],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
    found = {
        (sample.name, sample.labels.get("outcome"), sample.labels.get("stage")): sample.value
        for family in text_string_to_metric_families(worker.stdout)
        for sample in family.samples
        if sample.labels.get("model", "gpt-4o") == "gpt-4o"
    }
    assert found["trimtab_requests_total", "shaped", None] == 2
    assert found["trimtab_edits_total", None, "cleared"] == 24
    assert found["trimtab_shaping_seconds_count", None, None] == 2
