"""One span an exchange, with its parts as children, joined to the caller's trace; nothing at all when off."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from msgspec.structs import replace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
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
def test_a_refusal_is_not_an_error(memory, exchange, status) -> None:
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


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.received.append((self.path, ExportTraceServiceRequest.FromString(body)))  # type: ignore[attr-defined]
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return None


@pytest.fixture
def receiver() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    server.received = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def _settings(server: ThreadingHTTPServer, share: float = 1.0) -> TelemetrySettings:
    endpoint = f"http://127.0.0.1:{server.server_port}/v1/traces"
    return TelemetrySettings(traces=True, otlp_endpoint=endpoint, service_name="gateway", trace_share=share)


def test_the_span_of_an_exchange_arrives(receiver) -> None:
    trace = tracing(_settings(receiver), "1.2.3")
    span = trace.start({})
    with span.child("upstream"):
        pass
    span.end(SHAPED)
    trace.close()
    ((path, request),) = receiver.received
    (resource,) = request.resource_spans
    names = {a.key: a.value.string_value for a in resource.resource.attributes}
    assert path == "/v1/traces"
    assert (names["service.name"], names["service.version"]) == ("gateway", "1.2.3")
    assert {s.name for scope in resource.scope_spans for s in scope.spans} == {"upstream", "chat gpt-4o"}


def test_the_share_decides_only_where_the_caller_did_not(receiver) -> None:
    trace = tracing(_settings(receiver, share=0.0))
    trace.start({}).end(SHAPED)
    trace.start({"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01"}).end(SHAPED)
    trace.close()
    spans = [s for _, r in receiver.received for rs in r.resource_spans for ss in rs.scope_spans for s in ss.spans]
    assert [span.trace_id.hex() for span in spans] == ["ab" * 16]
