"""Spans arrive at a real receiver in OTLP."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from trimtab.telemetry.settings import TelemetrySettings
from trimtab.telemetry.trace import tracing

from .exchanges import SHAPED


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
