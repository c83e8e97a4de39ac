"""What an inline document costs: one of text what its text costs, however it is sent."""

from __future__ import annotations

import base64

import pytest

from trimtab.context.estimate.documents import MAX_PART_TOKENS, document_tokens
from trimtab.context.estimate.parts import part_tokens
from trimtab.context.estimate.tokens import text_tokens

TEXT = "def first(words: list[str]) -> str:\n    return words[0]  # the quick brown fox\n" * 90
SIZE = text_tokens(TEXT)
KANJI = "代理把长对话保持在模型的上下文窗口之内。" * 80


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def data_url(media: str, data: bytes) -> str:
    return f"data:{media};base64,{base64.b64encode(data).decode()}"


PYTHON, PLAIN = data_url("application/octet-stream", TEXT.encode()), data_url("text/plain", TEXT.encode())
TEXTS: list[tuple[str, dict[str, object]]] = [
    ("inline", {"type": "file", "file": {"file_data": PLAIN}}),
    ("code as bytes", {"type": "file", "file": {"file_data": PYTHON, "filename": "a.py"}}),
    ("plain words", {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": TEXT}}),
    ("base64", {"type": "document", "source": {"type": "base64", "data": b64(TEXT)}}),
    ("blocks", {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": TEXT}]}}),
    ("the AI SDK", {"type": "file", "mediaType": "text/markdown", "data": b64(TEXT)}),
    ("responses", {"type": "input_file", "filename": "a.txt", "file_data": PLAIN}),
    ("a type unknown", {"type": "attachment", "body": b64(TEXT)}),
    ("a data: URL, not base64", {"type": "file", "file": {"file_data": "data:text/plain," + TEXT}}),
]


@pytest.mark.parametrize("part", [row[1] for row in TEXTS], ids=[row[0] for row in TEXTS])
def test_a_document_of_text_costs_what_its_text_costs(part: dict[str, object]) -> None:
    assert SIZE <= part_tokens(part) <= SIZE + 9


def test_a_long_text_in_base64_counts_in_proportion_and_one_beyond_ascii_by_its_characters() -> None:
    assert 59 * SIZE <= document_tokens(b64(TEXT * 60)) <= 61 * SIZE
    assert document_tokens(b64(KANJI)) == text_tokens(KANJI)


@pytest.mark.parametrize("data", [b"%PDF-1.7 text first", bytes(900), b"PK\x03\x04", bytes(range(256)) * 9])
def test_any_other_document_costs_by_its_bytes(data: bytes) -> None:
    encoded = base64.b64encode(data * 100).decode()
    assert document_tokens(encoded) == min(MAX_PART_TOKENS, -(-len(encoded) * 3 // 4 // 50))


@pytest.mark.parametrize("data", ["A" * 10**8, "AAAA====" * 9_000, "\ud800", "", "x"])
def test_any_text_has_a_size(data: str) -> None:
    assert 1 <= document_tokens(data) <= MAX_PART_TOKENS
