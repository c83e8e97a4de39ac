"""What an operator may set about logs and traces. Metrics have no settings: they are always on."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from trimtab.units import Share

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["auto", "json", "pretty"]


class TelemetrySettings(Struct, frozen=True, forbid_unknown_fields=True):
    """`[telemetry]`. `log_format = "auto"` is pretty on a terminal and JSON lines elsewhere.

    Traces are off by default and need the `otel` extra. An empty `otlp_endpoint` leaves the choice to the
    standard OTEL_EXPORTER_OTLP_* variables. `trace_share` is the share of exchanges traced when the caller
    did not decide (its `traceparent` wins).
    """

    log_level: Level = "info"
    log_format: Format = "auto"
    traces: bool = False
    otlp_endpoint: str = ""
    service_name: str = "trimtab"
    trace_share: Share = 1.0
