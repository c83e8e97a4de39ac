"""What one exchange costs: `python -m tests.telemetry.measure`. Microseconds, best of five runs; the figure to
compare with is one `labels().inc()` of prometheus_client, measured in the same run.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter

from trimtab.telemetry import TelemetrySettings, open_telemetry

from .exchanges import PASSED, SHAPED

_TIMES = 10_000


def _microseconds(work: Callable[[], object]) -> float:
    return min(timeit.repeat(work, number=_TIMES, repeat=5)) / _TIMES * 1e6


def main() -> None:
    with open("/dev/null", "w") as nowhere:
        telemetry = open_telemetry(TelemetrySettings(log_format="json"), models=["gpt-4o"], stream=nowhere)
        counter = Counter("c", "c", ["a"], registry=CollectorRegistry())
        for name, work in {
            "baseline: labels().inc()": lambda: counter.labels("x").inc(),
            "metrics, passed": lambda: telemetry.metrics.observe(PASSED),
            "metrics, shaped": lambda: telemetry.metrics.observe(SHAPED),
            "log line, passed": lambda: telemetry.log.exchanges([(PASSED, 0.0)]),
            "log line, shaped": lambda: telemetry.log.exchanges([(SHAPED, 0.0)]),
        }.items():
            print(f"{name:28}{_microseconds(work):8.1f} µs")


if __name__ == "__main__":
    main()
