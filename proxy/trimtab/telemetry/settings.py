"""What an operator may set for logs and traces. Metrics have no settings: they are always on."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from trimtab.units import Share

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["auto", "json", "pretty"]


class TelemetrySettings(Struct, frozen=True, forbid_unknown_fields=True):
    """`[telemetry]`. `log_format = "auto"` is pretty on a terminal and JSON lines elsewhere.

    Traces are off by default and need the `otel` extra. With an empty `otlp_endpoint` the standard variables
    OTEL_EXPORTER_OTLP_* decide. `trace_share` is the share of exchanges that are traced, except that a caller's
    `traceparent` decides for its own request.
    """

    log_level: Level = "info"
    log_format: Format = "auto"
    traces: bool = False
    otlp_endpoint: str = ""
    service_name: str = "trimtab"
    trace_share: Share = 1.0
