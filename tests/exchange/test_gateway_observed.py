"""What a running proxy reports of each request: spans, the log line, metrics, ids."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import aiohttp
import msgspec
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.chat import COMPLETION, OVERFLOW, WINDOW, Call, post
from tests.support.conversations import agent_run, chat, prose
from tests.support.running import Running, running, sample
from tests.support.scripted import Received, ScriptedUpstream, Step, closed_port, json_reply, reply, sse_reply
from tests.support.summaries import SUMMARIES, SUMMARY_TEXT, writing_as_writer
from trimtab.context.texts import EXTRACT, NOTE, SUMMARY_PREFIX

pytestmark = pytest.mark.anyio

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


# -- traces ------------------------------------------------------------------------------------------------------


class Receiver(BaseHTTPRequestHandler):
    """An OTLP endpoint that keeps the spans it is sent."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        shown = ExportTraceServiceRequest.FromString(body)
        self.server.spans += [s for r in shown.resource_spans for scope in r.scope_spans for s in scope.spans]  # type: ignore[attr-defined]
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return None


@pytest.fixture
def collector() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    server.spans = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@contextlib.asynccontextmanager
async def traced(upstream: str, collector: ThreadingHTTPServer, toml: str = WINDOW) -> AsyncIterator[Running]:
    endpoint = f"http://127.0.0.1:{collector.server_port}/v1/traces"
    async with running(upstream, f'{toml}[telemetry]\ntraces = true\notlp_endpoint = "{endpoint}"\n') as proxy:
        yield proxy


def spans(collector: ThreadingHTTPServer) -> list[Span]:
    return collector.spans  # type: ignore[attr-defined, no-any-return]


async def test_an_exchange_is_one_span_with_its_parts_and_the_upstream_continues_it(
    collector: ThreadingHTTPServer,
) -> None:
    async with ScriptedUpstream(json_reply(COMPLETION)) as upstream, traced(upstream.base_url, collector) as proxy:
        await post(proxy.url, {"model": "m", "messages": agent_run(30)}, traceparent=PARENT, tracestate="vendor=1")
    found = {span.name: span for span in spans(collector)}
    assert set(found) == {"chat m", "plan", "upstream"}
    whole = found["chat m"]
    assert whole.trace_id.hex() == TRACE
    assert whole.parent_span_id.hex() == "b7ad6b7169203331"
    assert {found[part].parent_span_id for part in ("plan", "upstream")} == {whole.span_id}
    sent = upstream.requests[0]
    assert sent.all(b"traceparent") == [f"00-{TRACE}-{found['upstream'].span_id.hex()}-01".encode()]
    assert sent.all(b"tracestate") == [b"vendor=1"]
    shown = {a.key: a.value.string_value or a.value.int_value for a in whole.attributes}
    assert shown["trimtab.outcome"] == "shaped"
    assert shown["gen_ai.provider.name"] == "test"
    assert shown["trimtab.edits.cleared"] > 0


async def test_no_word_of_the_conversation_is_in_a_span(collector: ThreadingHTTPServer) -> None:
    async with ScriptedUpstream(json_reply(COMPLETION)) as upstream, traced(upstream.base_url, collector) as proxy:
        await post(proxy.url, {"model": "m", "messages": [{"role": "user", "content": "tungsten"}]})
        await post(proxy.url, b"not json: tungsten")
    assert len(spans(collector)) == 4
    assert not [span for span in spans(collector) if b"tungsten" in span.SerializeToString()]


async def test_a_smaller_try_is_a_second_call_of_the_same_exchange(collector: ThreadingHTTPServer) -> None:
    scripts = (json_reply(OVERFLOW, 400), json_reply(COMPLETION))
    async with ScriptedUpstream(*scripts) as upstream, traced(upstream.base_url, collector) as proxy:
        await post(proxy.url, {"model": "m", "messages": agent_run(12)})
    calls = [span.span_id.hex() for span in spans(collector) if span.name == "upstream"]
    sent = [request.header(b"traceparent").decode().split("-")[2] for request in upstream.requests]  # type: ignore[union-attr]
    assert calls == sent
    assert len({span.trace_id for span in spans(collector)}) == 1


async def test_a_request_that_fails_is_a_span_too(collector: ThreadingHTTPServer) -> None:
    async with traced(f"http://127.0.0.1:{closed_port()}/v1", collector) as proxy:
        answer = await post(proxy.url, {"model": "m", "messages": chat(1)})
    assert answer.status == 502
    (whole,) = [span for span in spans(collector) if span.name == "chat m"]
    assert (whole.status.code, whole.status.message) == (2, "upstream_unreachable")


async def test_other_paths_are_traced_and_continued(collector: ThreadingHTTPServer) -> None:
    async with ScriptedUpstream(json_reply({})) as upstream, traced(upstream.base_url, collector) as proxy:
        await post(proxy.url, b"x", "/v1/files", traceparent=PARENT)
    assert {span.trace_id.hex() for span in spans(collector)} == {TRACE}
    sent = upstream.requests[0].header(b"traceparent")
    assert sent is not None
    assert sent.decode().split("-")[2] in {span.span_id.hex() for span in spans(collector)}


async def test_without_traces_the_clients_own_trace_goes_on() -> None:
    async with ScriptedUpstream(json_reply(COMPLETION)) as upstream, running(upstream.base_url, WINDOW) as proxy:
        for parent in (PARENT, "not a trace", PARENT.upper()):
            await post(proxy.url, {"model": "m", "messages": chat(1)}, traceparent=parent)
        found = [line.get("trace_id") for line in lines(proxy, "exchange")]
    assert upstream.requests[0].all(b"traceparent") == [PARENT.encode()]
    assert found == [TRACE, None, None]


async def test_the_log_line_names_the_trace(collector: ThreadingHTTPServer) -> None:
    async with ScriptedUpstream(json_reply(COMPLETION)) as upstream, traced(upstream.base_url, collector) as proxy:
        await post(proxy.url, {"model": "m", "messages": chat(1)}, traceparent=PARENT)
        await post(proxy.url, {"model": "m", "messages": chat(1)})
        one, other = (line["trace_id"] for line in lines(proxy, "exchange"))
    assert one == TRACE
    assert {span.trace_id.hex() for span in spans(collector)} == {one, other}


async def test_the_line_of_another_path_names_it_without_its_query() -> None:
    async with ScriptedUpstream(json_reply({})) as upstream, running(upstream.base_url, WINDOW) as proxy:
        await post(proxy.url, b"x", "/v1/files/wolfram%201?secret=tungsten")
        await post(proxy.url, {"model": "m", "messages": chat(1)})
        other, own = lines(proxy, "exchange")
        metrics = await proxy.metrics()
        log = proxy.log.getvalue()
    # What is not a word of the API may be a client's own, and no text of a client gets into the log.
    assert (other["outcome"], other["method"], other["endpoint"]) == ("unmanaged", "POST", "/v1/files/*")
    assert "method" not in own
    assert sample(metrics, 'trimtab_requests_total{model="other",outcome="unmanaged"}') == 1
    assert "tungsten" not in log
    assert "wolfram" not in log


# -- summaries ---------------------------------------------------------------------------------------------------


def lines(proxy: Running, event: str) -> list[dict[str, Any]]:
    found = [msgspec.json.decode(line) for line in proxy.log.getvalue().splitlines()]
    return [line for line in found if line["event"] == event]


async def test_a_summary_is_in_the_answer_the_log_and_the_metrics() -> None:
    body = {"model": "m", "messages": chat(16)}
    toml = SUMMARIES + "precompact_share = 1.0\n"  # none ahead of need
    async with ScriptedUpstream(writing_as_writer) as upstream, running(upstream.base_url, toml) as proxy:
        first = await post(proxy.url, body, authorization="Bearer one")
        again = await post(proxy.url, body, authorization="Bearer one")
        planned = await post(proxy.url, body, "/v1/context/plan", authorization="Bearer one")
        other = await post(proxy.url, body, "/v1/context/plan", authorization="Bearer two")
        metrics = await proxy.metrics()
        exchanges, runs = lines(proxy, "exchange"), lines(proxy, "summary")
        log = proxy.log.getvalue()
    asked = [r for r in upstream.requests if r.json()["model"] == "writer"]
    sent = [r.json()["messages"] for r in upstream.requests if r.json()["model"] == "m"]
    assert [m["content"] for m in sent[0]] == [m["content"] for m in sent[1]]
    assert sum(str(m["content"]).startswith(SUMMARY_PREFIX) and SUMMARY_TEXT in m["content"] for m in sent[0]) == 1
    assert asked[0].header(b"authorization") == b"Bearer one"
    assert (first.headers["x-trimtab-summary"], again.headers["x-trimtab-summary"]) == ("miss", "hit")
    cost = f"in={900 * len(asked)}, out={60 * len(asked)}"
    assert first.headers["x-trimtab-compaction-tokens"] == cost
    assert again.headers["x-trimtab-compaction-tokens"] == "in=0, out=0"
    assert planned.json()["summary"] == {"wanted": True, "cached": True}
    assert other.json()["summary"] == {"wanted": True, "cached": False}
    assert [line.get("summary") for line in exchanges[:2]] == ["miss", "hit"]
    assert exchanges[0]["outcome"] == "shaped"
    assert [(run["outcome"], run["tokens_in"], run["tokens_out"]) for run in runs] == [("made", 900, 60)] * len(asked)
    assert SUMMARY_TEXT not in log
    assert sample(metrics, 'trimtab_summaries_total{result="miss"}') == 1
    assert sample(metrics, 'trimtab_summaries_total{result="hit"}') == 1
    assert sample(metrics, 'trimtab_summarizer_calls_total{outcome="made"}') == len(asked)
    assert sample(metrics, "trimtab_summarizer_seconds_count") == len(asked)
    assert 'kind="compaction_in"' in metrics


def _summary(content: str, **fields: Any) -> list[Step]:
    message = {"role": "assistant", "content": content, **fields}
    return json_reply({**COMPLETION, "choices": [{"message": message, "finish_reason": "stop"}]})


_CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
FAILING: dict[str, tuple[list[Step], str]] = {
    "500": (json_reply({"error": {}}, 500), "failed"),
    "a page": (reply(200, b"<html>Bad gateway</html>"), "failed"),
    "another JSON": (json_reply({"ok": True}), "failed"),
    "white space": (_summary(" \n"), "rejected"),
    "a tool call": (_summary("", tool_calls=[_CALL]), "rejected"),
    "more than it replaces": (_summary(prose(40_000)), "rejected"),
}


@pytest.mark.parametrize(("wrong", "outcome"), FAILING.values(), ids=FAILING)
async def test_a_summary_model_that_fails_leaves_note_extract_and_a_count(wrong: list[Step], outcome: str) -> None:
    def failing(received: Received) -> list[Step]:
        return wrong if received.json()["model"] == "writer" else json_reply(COMPLETION)

    async with ScriptedUpstream(failing) as upstream, running(upstream.base_url, SUMMARIES) as proxy:
        answer = await post(proxy.url, {"model": "m", "messages": chat(16)})
        metrics = await proxy.metrics()
        (run,), (exchange,) = lines(proxy, "summary"), lines(proxy, "exchange")
    sent = next(r.json()["messages"] for r in upstream.requests if r.json()["model"] == "m")
    assert answer.status == 200
    assert answer.headers["x-trimtab-summary"] == "fallback"
    assert any(m["content"].startswith(f"{NOTE}\n\n{EXTRACT}") for m in sent)
    assert not any(SUMMARY_PREFIX in m["content"] for m in sent)
    assert (run["outcome"], run["level"]) == (outcome, "warning")
    assert exchange["summary"] == "fallback"
    assert exchange["summary_cause"]
    assert sample(metrics, 'trimtab_summaries_total{result="fallback"}') == 1
    assert sample(metrics, f'trimtab_summarizer_calls_total{{outcome="{outcome}"}}') == 1


async def test_a_summary_begun_ahead_of_need_is_reported_and_no_request_waits_for_it() -> None:
    async with ScriptedUpstream(writing_as_writer) as upstream, running(upstream.base_url, SUMMARIES) as proxy:
        answer = await post(proxy.url, {"model": "m", "messages": chat(11)})
        for _ in range(100):
            if lines(proxy, "summary"):
                break
            await asyncio.sleep(0.02)
        runs = lines(proxy, "summary")
        metrics = await proxy.metrics()
    assert answer.headers["x-trimtab-summary"] == "background"
    assert "summarized=0" in answer.headers["x-trimtab-edits"]
    assert runs[0]["outcome"] == "made"
    assert sample(metrics, 'trimtab_summaries_total{result="background"}') == 1
    assert upstream.requests


# -- ids and methods ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "given", "got"),
    [
        ("mine-1", None, "mine-1"),
        ("mine-1", "theirs", "theirs"),
        (None, "theirs", "theirs"),
        (None, None, None),
        ("x" * 300, None, "x" * 128),
        ("tab\there", None, None),
    ],
)
async def test_a_request_has_one_id_from_end_to_end(sent: str | None, given: str | None, got: str | None) -> None:
    """The client's id, the upstream's where it gives one, or a new one; the log has the one known at arrival."""
    headers = [(b"x-request-id", given.encode())] if given else []
    script = json_reply(COMPLETION, headers=headers)
    async with ScriptedUpstream(script) as upstream, running(upstream.base_url) as proxy:
        named = {"x_request_id": sent} if sent else {}
        answer = await post(proxy.url, {"model": "m", "messages": chat(0)}, **named)
        (line,) = lines(proxy, "exchange")
    assert answer.headers.getall("x-request-id") == [got or line["request_id"]]
    assert len(line["request_id"]) == (32 if got is None or not sent else len(sent[:128]))
    assert answer.headers.getall("x-trimtab-request-id") == [line["request_id"]]
    assert line.get("upstream_request_id") == given
    assert upstream.requests[0].header(b"x-request-id") == (sent.encode() if sent else None)


TOO_LONG = [{"role": "user", "content": prose(30_000)}]
ANSWERS: list[tuple[str, str, bytes, int]] = [
    ("chat", "/v1/chat/completions", msgspec.json.encode({"model": "m", "messages": chat(0)}), 200),
    ("a stream", "/v1/chat/completions", msgspec.json.encode({"model": "m", "messages": chat(0), "stream": True}), 200),
    ("another path", "/v1/files", b"x", 200),
    ("a plan", "/v1/context/plan", msgspec.json.encode({"model": "m", "messages": chat(0)}), 200),
    ("a plan of nothing", "/v1/context/plan", b"x", 400),
    ("not JSON", "/v1/chat/completions", b"x", 400),
    ("what cannot fit", "/v1/chat/completions", msgspec.json.encode({"model": "m", "messages": TOO_LONG}), 400),
]


@pytest.mark.parametrize(("_", "path", "body", "status"), ANSWERS, ids=[row[0] for row in ANSWERS])
async def test_every_answer_has_our_id_of_the_request(_: str, path: str, body: bytes, status: int) -> None:
    theirs = [(b"x-request-id", b"theirs"), (b"x-trimtab-request-id", b"of another Trimtab")]
    script = json_reply(COMPLETION, headers=theirs)
    async with ScriptedUpstream(script) as upstream, running(upstream.base_url, WINDOW) as proxy:
        answer = await post(proxy.url, body, path, x_request_id="mine")
        line = lines(proxy, "exchange")[-1]
    assert (answer.status, answer.headers.getall("x-trimtab-request-id")) == (status, ["mine"])
    assert answer.headers.getall("x-request-id") == ["theirs" if upstream.requests else "mine"]
    assert line["request_id"] == "mine"


async def test_an_error_of_ours_names_the_request() -> None:
    async with running(f"http://127.0.0.1:{closed_port()}/v1") as proxy:
        answer = await post(proxy.url, {"model": "m", "messages": chat(0)}, x_request_id="mine-1")
    assert answer.headers["x-request-id"] == "mine-1"
    assert answer.json()["error"]["request_id"] == "mine-1"


async def call(url: str, method: str, **headers: str) -> Call:
    async with aiohttp.ClientSession() as session, session.request(method, url, headers=headers) as answer:
        return Call(answer.status, answer.headers, await answer.read())


@pytest.mark.parametrize("path", ["/v1/models", "/v1/chat/completions"])
async def test_a_head_request_gets_the_headers_of_the_answer_and_no_body(path: str) -> None:
    head = reply(200, b"", [(b"content-type", b"application/json"), (b"x-vendor", b"1")])[0]
    head = head.replace(b"content-length: 0", b"content-length: 27")
    async with ScriptedUpstream([head]) as upstream, running(upstream.base_url) as proxy:
        answer = await call(proxy.url + path, "HEAD")
        again = await call(proxy.url + path, "HEAD")
    assert (answer.status, again.status, answer.body) == (200, 200, b"")
    assert answer.headers["x-vendor"] == "1"
    assert [r.method for r in upstream.requests] == ["HEAD", "HEAD"]


async def test_a_preflight_goes_to_the_upstream_which_knows_its_origins() -> None:
    allowed = [(b"access-control-allow-origin", b"https://app.example"), (b"access-control-max-age", b"60")]
    async with ScriptedUpstream(reply(204, b"", allowed)) as upstream, running(upstream.base_url) as proxy:
        asked = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST"}
        answer = await call(proxy.url + "/v1/chat/completions", "OPTIONS", **asked)
    assert (answer.status, answer.headers["access-control-allow-origin"]) == (204, "https://app.example")
    assert upstream.requests[0].header(b"origin") == b"https://app.example"
    assert upstream.requests[0].method == "OPTIONS"


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH"])
async def test_other_methods_on_the_chat_path_are_the_upstreams_to_judge(method: str) -> None:
    script = json_reply({"error": {"message": "use POST"}}, 405)
    async with ScriptedUpstream(script) as upstream, running(upstream.base_url) as proxy:
        answer = await call(proxy.url + "/v1/chat/completions", method)
    assert answer.status == 405
    assert upstream.requests[0].method == method


async def test_a_stream_has_an_id_and_is_logged_as_one() -> None:
    async with ScriptedUpstream(sse_reply(b'{"choices":[]}')) as upstream, running(upstream.base_url) as proxy:
        answer = await post(proxy.url, {"model": "m", "stream": True, "messages": chat(0)}, x_request_id="s-1")
        (line,) = lines(proxy, "exchange")
    assert answer.headers["x-request-id"] == "s-1"
    assert (line["stream"], line["request_id"]) == (True, "s-1")


@pytest.mark.parametrize("way", ["header", "mode"])
async def test_a_request_that_is_only_observed_is_measured_by_what_was_sent(way: str) -> None:
    def counting(received: Received) -> list[Step]:
        tokens = len(received.body) // 5
        usage = {"prompt_tokens": tokens, "completion_tokens": 1, "total_tokens": tokens + 1}
        return json_reply({**COMPLETION, "usage": usage})

    toml = WINDOW + ('[shaping]\nmode = "observe"\n' if way == "mode" else "")
    asked = {"x_trimtab_observe": "true"} if way == "header" else {}
    async with ScriptedUpstream(counting) as upstream, running(upstream.base_url, toml) as proxy:
        answer = await post(proxy.url, {"model": "m", "messages": agent_run(40)}, **asked)
        line = msgspec.json.decode(proxy.log.getvalue().splitlines()[-1])
    assert answer.status == 200
    assert line["outcome"] == "observed"
    assert line["tokens_sent"] < line["tokens_original"] / 2
    assert 0.6 < line["estimate_ratio"] < 1.2
