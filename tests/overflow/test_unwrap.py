"""Where in a body the error is: the whole of a 4xx, the marked part of a 200, the failed events of a stream."""

from __future__ import annotations

import pytest

from trimtab.overflow.unwrap import is_chunk, unwrap, unwrap_event

CHUNK = b'{"choices":[{"delta":{"content":"hello"}}]}'


def texts(status: int, body: bytes) -> list[str]:
    return [text for error in unwrap(status, body) for text in error.texts]


FAILED = b': ping\n\nevent: response.failed\ndata: {"response":{"instructions":"no no","error":{"message":"a b"}}}\n\n'

BODIES: list[tuple[int, bytes, list[str]]] = [
    (400, b'{"error":{"message":"a b"}}', ["a b"]),
    (400, b'{"message":"a b"}', ["a b"]),
    (400, b"a b", ["a b"]),
    (400, b"<html><h1>a b</h1></html>", ["a b"]),
    (400, b'{"choices":[{"error":{"message":"a b"}}]}', ["a b"]),
    (400, b'data: {"error":{"message":"a b"}}\n\n', ["a b"]),
    (200, b'{"error":{"message":"a b"},"choices":[]}', ["a b"]),
    (200, b'{"base_resp":{"status_code":2013,"status_msg":"a b"},"choices":null}', ["a b"]),
    (200, b'{"base_resp":{"status_code":0,"status_msg":"a b"},"choices":null}', []),
    (200, b'{"success":false,"code":"x","msg":"a b"}', ["a b"]),
    (200, b'{"code":0,"msg":"a b"}', []),
    (200, b'{"message":"a b","id":"1"}', []),
    (200, b'{"error_message":"a b","error_type":"t"}', ["a b"]),
    (200, b'{"id":"1","choices":[],"error_message":"a b"}', ["a b"]),
    (200, b'{"id":"1","choices":null,"errorMessage":"a b"}', ["a b"]),
    (200, b'{"error_type":"t","description":"a b"}', ["a b"]),
    (200, b'{"error_message":"{\\"error\\":{\\"message\\":\\"a b\\"}}"}', ["a b"]),
    (200, b'{"status_code":400,"body":"{\\"error\\":{\\"message\\":\\"a b\\"}}"}', ["a b"]),
    (200, b'{"content":"{\\"error\\":{\\"message\\":\\"a b\\"}}"}', []),
    (200, b'data: {"error_message":"a b"}\n\n', ["a b"]),
    (200, b"a b", []),
    (200, b'data: ' + CHUNK + b'\n\ndata: {"error":"a b"}\n\ndata: [DONE]\n\n', ["a b"]),
    (200, b'event: error\r\ndata: {"message":"a b","id":"1"}\r\n\r\n', ["a b"]),
    (200, b'event: message\ndata: {"message":"a b","id":"1"}\n\n', []),
    (200, FAILED, ["a b"]),
    (200, CHUNK, []),
    (200, b'{"done":false,"message":{"content":"no no"}}\n{"error":"a b"}\n', ["a b"]),
]  # fmt: skip


@pytest.mark.parametrize(("status", "body", "expected"), BODIES)
def test_unwrap(status: int, body: bytes, expected: list[str]) -> None:
    assert texts(status, body) == expected


def test_event() -> None:
    assert unwrap_event(CHUNK) is None
    assert unwrap_event(b"[DONE]") is None
    error = unwrap_event(b'{"type":"error","message":"a b"}')
    assert error is not None
    assert error.texts == ("a b",)


def test_a_chunk_is_recognized_without_decoding() -> None:
    assert is_chunk(CHUNK)
    assert not is_chunk(b'{"choices":[],"error":{"message":"a b"}}')
    assert not is_chunk(b'{"type":"response.failed"}')


def test_of_many_failed_events_only_the_first_are_read() -> None:
    assert len(texts(200, b'data: {"error":"a b"}\n\n' * 1_000)) < 100
    assert len(texts(200, b'{"error":"a b"}\n' * 1_000)) < 100
