"""An operator's slip is refused with its place."""

from __future__ import annotations

import msgspec
import pytest

from trimtab.telemetry.settings import TelemetrySettings


def test_defaults_are_quiet_about_traces() -> None:
    assert msgspec.toml.decode(b"", type=TelemetrySettings) == TelemetrySettings()
    assert TelemetrySettings().traces is False


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ('log_levle = "info"', "log_levle"),
        ('log_level = "loud"', "log_level"),
        ("trace_share = 2", "trace_share"),
    ],
)
def test_slips(line: str, place: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=place):
        msgspec.toml.decode(line, type=TelemetrySettings)
