"""An error object flattened: sentences, codes, numbers; nothing the client wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trimtab.overflow.error_body import MAX_JSON, MAX_PARTS, MAX_TEXT, ErrorBody, decode_json, read_error_body

FLATTENED: list[tuple[Any, ErrorBody | None]] = [
    ("too long, all of it", ErrorBody(texts=("too long, all of it",))),
    ({"error": "too long"}, ErrorBody(texts=("too long",))),
    ({"error": {"message": "m m", "type": "t", "code": None}}, ErrorBody(texts=("m m",), codes=("t",))),
    ({"error": {"code": 1261, "message": "m m"}}, ErrorBody(texts=("m m",), codes=("1261",))),
    ({"metadata": {"raw": '{"error":{"message":"m m"}}'}}, ErrorBody(texts=("m m",))),
    ({"message": 'x said {"error":"m m"}'}, ErrorBody(texts=("x said", "m m"))),
    ({"fooException": {"message": "m m"}}, ErrorBody(texts=("m m",), codes=("fooException",))),
    ({"message": "m m", "param": "top_p"}, ErrorBody(texts=("m m",), params=("top_p",))),
    ({"n_ctx": 8192, "n_prompt_tokens": 9000, "type": "t"}, ErrorBody(codes=("t",), limit=8192, actual=9000)),
    ({"detail": [{"msg": "m m", "input": "mine", "loc": ["body"]}]}, ErrorBody(texts=("m m",))),
    ({"messages": ["mine"], "prompt": "mine", "content": "mine"}, None),
    ({"a": None, "b": True, "c": []}, None),
]


@pytest.mark.parametrize(("value", "error"), FLATTENED)
def test_flattened(value: Any, error: ErrorBody | None) -> None:
    assert read_error_body(value) == error


def test_bounds() -> None:
    error = read_error_body({str(number): f"text {number} " + "x" * 9000 for number in range(99)})
    assert error is not None
    assert len(error.texts) == MAX_PARTS
    assert max(map(len, error.texts)) == MAX_TEXT


def test_json_in_json_in_json() -> None:
    text = "prompt is too long"
    for _ in range(4):
        text = json.dumps({"error": {"message": text}})
    assert read_error_body(text) == ErrorBody(texts=("prompt is too long",))


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"[" * 9000, b" " * (MAX_JSON + 1), b"nope"])
def test_what_is_not_json_decodes_to_none(data: bytes) -> None:
    assert decode_json(data) is None


def test_json_of_very_many_values_is_no_error() -> None:
    assert decode_json(b"[" + b"{}," * 200_000 + b"{}]") is None
    assert decode_json('{"message": "' + "a, " * 10_000 + '"}') is not None
