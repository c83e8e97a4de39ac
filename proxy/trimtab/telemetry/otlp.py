"""Where spans go: OTLP over HTTP, in batches, from a thread of its own. Imported only when traces are on."""

from __future__ import annotations

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio

from trimtab.telemetry.settings import TelemetrySettings


def provider(settings: TelemetrySettings, version: str) -> TracerProvider:
    """A provider that exports to `otlp_endpoint` (the full URL, with `/v1/traces`), or where the standard
    environment variables say.
    """
    resource = Resource.create({"service.name": settings.service_name, "service.version": version})
    made = TracerProvider(resource=resource, sampler=ParentBasedTraceIdRatio(settings.trace_share))
    made.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=settings.otlp_endpoint or None)))
    return made
