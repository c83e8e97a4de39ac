"""Traces, when an operator turns them on: one span for each exchange, with a child for plan, summary and upstream.

OpenTelemetry is an optional extra, imported only when traces are on; spans are then sent by OTLP over HTTP, in batches,
from a thread. When traces are off, NO_TRACING does nothing, and the client's `traceparent` is forwarded like any other
header. Names and attributes follow OpenTelemetry's conventions for generative AI. Message content is never recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Literal, Protocol

from trimtab.errors import ConfigError
from trimtab.telemetry.record import GENERATING, Exchange
from trimtab.telemetry.settings import TelemetrySettings

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

Part = Literal["plan", "summary", "upstream"]


class ExchangeSpan(Protocol):
    """The span of one exchange, from its arrival to its record."""

    @property
    def trace_id(self) -> str:
        """The id of its trace, 32 hex digits; "" where none is recorded."""

    def child(self, part: Part) -> AbstractContextManager[None]:
        """A span for one part of the exchange."""

    def headers(self) -> dict[str, str]:
        """The headers that continue the trace at the upstream; they replace the client's."""

    def end(self, exchange: Exchange) -> None:
        """Close the span with the record's attributes."""


class Tracing(Protocol):
    """Where spans come from."""

    def start(self, headers: Mapping[str, str]) -> ExchangeSpan:
        """Open a span, as a child of the trace in `headers` (names in lower case) if there is one."""

    def close(self) -> None:
        """Send the spans that are waiting. Blocks, for some seconds at most."""


_NO_TIME: AbstractContextManager[None] = nullcontext()


class _NoSpan:
    trace_id = ""

    def child(self, part: Part) -> AbstractContextManager[None]:
        return _NO_TIME

    def headers(self) -> dict[str, str]:
        return {}

    def end(self, exchange: Exchange) -> None:
        return None


class _NoTracing:
    _span = _NoSpan()

    def start(self, headers: Mapping[str, str]) -> ExchangeSpan:
        return self._span

    def close(self) -> None:
        return None


NO_TRACING: Tracing = _NoTracing()


def tracing(settings: TelemetrySettings, version: str = "") -> Tracing:
    """Tracing by the settings: NO_TRACING, or spans sent by OTLP. Raises ConfigError when the extra is missing."""
    if not settings.traces:
        return NO_TRACING
    try:
        return OpenTelemetry(_otlp(settings, version))
    except ImportError as missing:
        raise ConfigError(
            "[telemetry] traces = true needs OpenTelemetry. Install it: "
            "pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http",
            param="telemetry.traces",
        ) from missing


def _otlp(settings: TelemetrySettings, version: str) -> TracerProvider:
    """A provider that exports to `otlp_endpoint` (the full URL, with `/v1/traces`), or to where the standard variables
    of the environment point."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio

    resource = Resource.create({"service.name": settings.service_name, "service.version": version})
    provider = TracerProvider(resource=resource, sampler=ParentBasedTraceIdRatio(settings.trace_share))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=settings.otlp_endpoint or None)))
    return provider


class OpenTelemetry:
    """Spans of OpenTelemetry's SDK, from the given provider."""

    def __init__(self, provider: TracerProvider) -> None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._provider = provider
        self._tracer = provider.get_tracer("trimtab")
        self._propagator = TraceContextTextMapPropagator()

    def start(self, headers: Mapping[str, str]) -> ExchangeSpan:
        """See `Tracing.start`."""
        from opentelemetry.trace import SpanKind

        parent = self._propagator.extract(headers)
        return _OpenSpan(self, self._tracer.start_span("chat", context=parent, kind=SpanKind.SERVER))

    def close(self) -> None:
        """See `Tracing.close`."""
        self._provider.shutdown()


class _OpenSpan:
    def __init__(self, tracing: OpenTelemetry, span: Span) -> None:
        from opentelemetry.trace import set_span_in_context

        self._tracing = tracing
        self._span = span
        self._context = set_span_in_context(span)
        self._innermost = self._context
        self.trace_id = f"{span.get_span_context().trace_id:032x}"

    @contextmanager
    def child(self, part: Part) -> Iterator[None]:
        from opentelemetry.trace import SpanKind, set_span_in_context

        kind = SpanKind.INTERNAL if part == "plan" else SpanKind.CLIENT
        span = self._tracing._tracer.start_span(part, context=self._context, kind=kind)
        outer, self._innermost = self._innermost, set_span_in_context(span)
        try:
            yield
        finally:
            self._innermost = outer
            span.end()

    def headers(self) -> dict[str, str]:
        carrier: dict[str, str] = {}
        self._tracing._propagator.inject(carrier, context=self._innermost)
        return carrier

    def end(self, exchange: Exchange) -> None:
        from opentelemetry.trace import StatusCode

        if exchange.model:
            self._span.update_name(f"{_operation(exchange)} {exchange.model}")
        self._span.set_attributes(attributes(exchange))
        if exchange.outcome in ("failed", "upstream_error", "overloaded"):
            self._span.set_status(StatusCode.ERROR, exchange.error_code or exchange.outcome)
        self._span.end()


def _operation(exchange: Exchange) -> str:
    return "chat" if exchange.path in GENERATING else exchange.path


def attributes(exchange: Exchange) -> dict[str, Any]:
    """The record as span attributes: OpenTelemetry's names where the conventions have one, else `trimtab.*`."""
    found: dict[str, Any] = {
        "gen_ai.operation.name": _operation(exchange),
        "gen_ai.provider.name": exchange.upstream,
        "gen_ai.request.model": exchange.model,
        "http.response.status_code": exchange.status,
        "error.type": exchange.error_code,
        "trimtab.request_id": exchange.request_id,
        "trimtab.outcome": exchange.outcome,
        "trimtab.tokens.original": exchange.tokens.original,
        "trimtab.tokens.sent": exchange.tokens.sent,
        "trimtab.tokens.budget": exchange.tokens.budget,
        "trimtab.limit_source": exchange.tokens.limit_source,
        "trimtab.summary": "" if exchange.summary == "none" else exchange.summary,
        "trimtab.prefix_break": exchange.prefix_break,
        "trimtab.fail_open": exchange.fail_open,
        "trimtab.retries": exchange.retries,
    }
    for edited in exchange.edits:
        found[f"trimtab.edits.{edited.stage}"] = edited.count
    if exchange.usage is not None:
        found["gen_ai.usage.input_tokens"] = exchange.usage.prompt
        found["gen_ai.usage.output_tokens"] = exchange.usage.completion
        found["gen_ai.usage.cache_read.input_tokens"] = exchange.usage.cached
    return {name: value for name, value in found.items() if value not in ("", None, 0)}
