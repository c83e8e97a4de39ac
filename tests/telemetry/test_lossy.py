"""A log that cannot be written costs its lines and nothing else."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest

from tests.telemetry.exchanges import PASSED
from trimtab.telemetry import open_telemetry
from trimtab.telemetry.lossy import Lossy
from trimtab.telemetry.settings import TelemetrySettings


def test_what_can_be_written_is_written() -> None:
    stream = StringIO()
    lossy = Lossy(stream)
    lossy.write("a line\n")
    lossy.flush()
    assert (stream.getvalue(), lossy.lost, lossy.isatty()) == ("a line\n", 0, False)


def test_a_full_disk_is_counted_and_not_raised() -> None:
    full = Path("/dev/full").open("w")  # noqa: SIM115  closing it fails too
    lossy = Lossy(full)
    for _ in range(100):
        lossy.write("x" * 1000)
        lossy.flush()
    assert lossy.lost >= 100
    with pytest.raises(OSError, match="No space"):
        full.close()


def test_a_closed_stream_is_counted_and_not_raised() -> None:
    stream = StringIO()
    stream.close()
    lossy = Lossy(stream)
    lossy.write("a line\n")
    lossy.flush()
    assert lossy.lost >= 1
    assert not lossy.isatty()


@pytest.mark.parametrize("log_format", ["json", "pretty"])
def test_every_kind_of_line_may_be_lost(log_format: str) -> None:
    stream = StringIO()
    telemetry = open_telemetry(TelemetrySettings(log_format=log_format), stream=stream)  # type: ignore[arg-type]
    stream.close()
    telemetry.observe(PASSED)
    telemetry.log.bug("r", ValueError("x"))
