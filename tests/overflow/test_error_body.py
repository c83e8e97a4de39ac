"""An error object taken apart: sentences, codes, numbers; nothing the client wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trimtab.overflow.error_body import MAX_JSON, MAX_PARTS, MAX_TEXT, Complaint, complaint_of, decode

TAKEN_APART: list[tuple[Any, Complaint | None]] = [
    ("too long, all of it", Complaint(texts=("too long, all of it",))),
    ({"error": "too long"}, Complaint(texts=("too long",))),
    ({"error": {"message": "m m", "type": "t", "code": None}}, Complaint(texts=("m m",), codes=("t",))),
    ({"error": {"code": 1261, "message": "m m"}}, Complaint(texts=("m m",), codes=("1261",))),
    ({"metadata": {"raw": '{"error":{"message":"m m"}}'}}, Complaint(texts=("m m",))),
    ({"message": 'x said {"error":"m m"}'}, Complaint(texts=("x said", "m m"))),
    ({"fooException": {"message": "m m"}}, Complaint(texts=("m m",), codes=("fooException",))),
    ({"message": "m m", "param": "top_p"}, Complaint(texts=("m m",), params=("top_p",))),
    ({"n_ctx": 8192, "n_prompt_tokens": 9000, "type": "t"}, Complaint(codes=("t",), limit=8192, actual=9000)),
    ({"detail": [{"msg": "m m", "input": "mine", "loc": ["body"]}]}, Complaint(texts=("m m",))),
    ({"messages": ["mine"], "prompt": "mine", "content": "mine"}, None),
    ({"a": None, "b": True, "c": []}, None),
]


@pytest.mark.parametrize(("value", "complaint"), TAKEN_APART)
def test_complaint(value: Any, complaint: Complaint | None) -> None:
    assert complaint_of(value) == complaint


def test_bounds() -> None:
    complaint = complaint_of({str(number): f"text {number} " + "x" * 9000 for number in range(99)})
    assert complaint is not None
    assert len(complaint.texts) == MAX_PARTS
    assert max(map(len, complaint.texts)) == MAX_TEXT


def test_json_in_json_in_json() -> None:
    text = "prompt is too long"
    for _ in range(4):
        text = json.dumps({"error": {"message": text}})
    assert complaint_of(text) == Complaint(texts=("prompt is too long",))


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"[" * 9000, b" " * (MAX_JSON + 1), b"nope"])
def test_decode_of_what_is_no_json(data: bytes) -> None:
    assert decode(data) is None
