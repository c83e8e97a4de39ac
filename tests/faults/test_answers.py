"""Answers as no upstream should give them: each reaches the client in a defined way, and none is taken for the next."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.support.chat import COMPLETION
from tests.support.raw import exchange, request
from tests.support.running import running
from tests.support.scripted import CLOSE, ScriptedUpstream, Step, chunk, json_reply

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class Row:
    script: list[Step]
    status: int
    body: bytes = b""


def head(*lines: bytes, body: bytes = b"") -> list[Step]:
    return [b"\r\n".join(lines) + b"\r\n\r\n" + body]


OK, EMPTY, TWO = b"HTTP/1.1 200 OK", b"content-length: 0", b"content-length: 2"
JSON = b"content-type: application/json"
WHOLE = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 8\r\n\r\n" + b'{"ok":1}'
POISON = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\npoison"

ROWS = {
    # statuses
    "204": Row(head(b"HTTP/1.1 204 No Content"), 204),
    "304": Row(head(b"HTTP/1.1 304 Not Modified", b"etag: x"), 304),
    "103 and then 200": Row(head(b"HTTP/1.1 103 Early Hints", b"link: x", body=WHOLE), 200, b'{"ok":1}'),
    "100 and then 200": Row(head(b"HTTP/1.1 100 Continue", body=WHOLE), 200, b'{"ok":1}'),
    "a redirect is not followed": Row(head(b"HTTP/1.1 302 Found", b"location: http://evil.example/", EMPTY), 302),
    "999": Row(head(b"HTTP/1.1 999 Odd", EMPTY), 999),
    "099": Row(head(b"HTTP/1.1 099 Odd", EMPTY), 502),
    "an upgrade nobody asked for": Row(head(b"HTTP/1.1 101 Switching", b"upgrade: x", b"connection: upgrade"), 502),
    "a long reason": Row(head(b"HTTP/1.1 200 " + b"x" * 9_000, EMPTY), 200),
    # framing
    "to the end of the connection": Row([*head(OK, JSON, body=b'{"ok":2}'), CLOSE], 200, b'{"ok":2}'),
    "HTTP/1.0": Row([*head(b"HTTP/1.0 200 OK", JSON, body=b'{"ok":2}'), CLOSE], 200, b'{"ok":2}'),
    "trailers": Row([*head(OK, b"transfer-encoding: chunked"), chunk(b"{}"), b"0\r\nx-t: 1\r\n\r\n"], 200, b"{}"),
    "bare LF": Row([b"HTTP/1.1 200 OK\ncontent-length: 2\n\n{}"], 200, b"{}"),
    "a length below zero": Row(head(OK, b"content-length: -1"), 502),
    "length and chunks": Row(head(OK, b"content-length: 3", b"transfer-encoding: chunked", body=chunk(b"{}")), 502),
    "more than was announced": Row(head(OK, JSON, b"content-length: 2", body=b"{}" + POISON), 200, b"{}"),
    "less than was announced": Row([*head(OK, JSON, b"content-length: 9", body=b"{}"), CLOSE], 502),
    # headers
    "a header of 60 KB": Row(head(OK, b"x-a: " + b"a" * 60_000, EMPTY), 200),
    "a header of 80 KB": Row(head(OK, b"x-a: " + b"a" * 80_000, EMPTY), 502),
    "120 headers": Row(head(OK, *(b"x-%d: y" % i for i in range(120)), EMPTY), 200),
    "500 headers": Row(head(OK, *(b"x-%d: y" % i for i in range(500)), EMPTY), 502),
    "no colon": Row(head(OK, b"garbage", EMPTY), 502),
    "no name": Row(head(OK, b": a", EMPTY), 502),
    "a name with a space": Row(head(OK, b"x a: b", EMPTY), 502),
    "a bare CR": Row(head(OK, b"x-a: a\rset-cookie: c", EMPTY), 502),
    "NUL": Row(head(OK, b"x-a: a\0b", EMPTY), 502),
    "a control character": Row(head(OK, b"x-a: a\x01b\x7f", EMPTY), 200),
    "a folded line": Row(head(OK, b"x-a: a\r\n b", EMPTY), 200),
    "Latin-1": Row(head(OK, b"x-a: \xe9\xff", EMPTY), 200),
    "named by connection": Row(head(OK, b"connection: content-length, x-b", b"x-b: 1", TWO, body=b"{}"), 200, b"{}"),
    "encodings in a row": Row(head(b"HTTP/1.1 400 Bad", b"content-encoding: gzip, br", TWO, body=b"{}"), 400, b"{}"),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
async def test_an_odd_answer_reaches_the_client_in_a_defined_way(row: Row) -> None:
    impatient = "read_timeout_s = 0.5\n"
    async with (
        ScriptedUpstream(row.script, json_reply(COMPLETION)) as upstream,
        running(upstream.base_url, impatient) as proxy,
    ):
        answer = await exchange(proxy.url, request())
        after = await exchange(proxy.url, request())
        log = proxy.log.getvalue()
    assert answer.status == row.status, answer.raw
    assert answer.ended
    if row.status != 502:
        assert answer.body == row.body
        assert b"x-b" not in answer.raw
    assert (after.status, after.body.startswith(b'{"id":"c1"')) == (200, True)
    assert '"level":"error"' not in log
    assert len(upstream.requests) == 2
