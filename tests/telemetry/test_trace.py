"""One span an exchange, with its parts as children, joined to the caller's trace; nothing at all when off."""

from __future__ import annotations

import subprocess
import sys

import pytest
from msgspec.structs import replace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from trimtab.telemetry.settings import TelemetrySettings
from trimtab.telemetry.trace import NO_TRACING, OpenTelemetry, attributes, tracing

from .exchanges import PASSED, REFUSED, SHAPED

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
PARENT = {"traceparent": f"00-{TRACE_ID}-b7ad6b7169203331-01", "tracestate": "vendor=1"}


@pytest.fixture
def memory() -> tuple[OpenTelemetry, InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return OpenTelemetry(provider), exporter


def _by_name(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in exporter.get_finished_spans()}


def test_an_exchange_is_one_span_with_a_child_for_each_part(memory) -> None:
    trace, exporter = memory
    span = trace.start({})
    for part in ("plan", "summary", "upstream"):
        with span.child(part):
            pass
    span.end(SHAPED)
    spans = _by_name(exporter)
    assert set(spans) == {"plan", "summary", "upstream", "chat gpt-4o"}
    assert {spans[part].parent.span_id for part in ("plan", "summary", "upstream")} == {
        spans["chat gpt-4o"].context.span_id
    }


def test_it_continues_the_callers_trace(memory) -> None:
    trace, exporter = memory
    span = trace.start(PARENT)
    span.end(PASSED)
    (root,) = exporter.get_finished_spans()
    assert format(root.context.trace_id, "032x") == TRACE_ID
    assert format(root.parent.span_id, "016x") == "b7ad6b7169203331"


def test_the_upstream_continues_the_span_of_its_call(memory) -> None:
    trace, exporter = memory
    span = trace.start(PARENT)
    with span.child("upstream"):
        headers = span.headers()
    outside = span.headers()
    span.end(PASSED)
    spans = _by_name(exporter)
    call, whole = (format(spans[name].context.span_id, "016x") for name in ("upstream", "chat gpt-4o"))
    assert headers == {"traceparent": f"00-{TRACE_ID}-{call}-01", "tracestate": "vendor=1"}
    assert outside["traceparent"] == f"00-{TRACE_ID}-{whole}-01"


def test_a_part_that_fails_is_closed_all_the_same(memory) -> None:
    trace, exporter = memory
    span = trace.start({})
    with pytest.raises(TimeoutError), span.child("upstream"):
        raise TimeoutError
    assert [span.name for span in exporter.get_finished_spans()] == ["upstream"]


@pytest.mark.parametrize(
    ("exchange", "status"),
    [
        (PASSED, StatusCode.UNSET),
        (REFUSED, StatusCode.UNSET),
        (replace(PASSED, outcome="upstream_error", error_code="upstream_timeout"), StatusCode.ERROR),
    ],
)
def test_a_refusal_is_no_error(memory, exchange, status) -> None:
    trace, exporter = memory
    trace.start({}).end(exchange)
    assert exporter.get_finished_spans()[0].status.status_code is status


def test_attributes_are_those_of_the_conventions() -> None:
    found = attributes(SHAPED)
    assert {name: value for name, value in found.items() if name.startswith("gen_ai.")} == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.usage.input_tokens": 19_500,
        "gen_ai.usage.output_tokens": 300,
    }
    assert found["trimtab.edits.cleared"] == 12


def test_off_it_does_nothing_and_leaves_the_clients_header_alone() -> None:
    trace = tracing(TelemetrySettings())
    assert trace is NO_TRACING
    span = trace.start(PARENT)
    with span.child("plan"):
        assert span.headers() == {}
    span.end(PASSED)
    trace.close()


def test_off_opentelemetry_is_not_even_imported() -> None:
    code = "import sys, trimtab.telemetry; sys.exit('opentelemetry' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
