"""A cleared result is measured without being made, and comes to exactly what it is when it is made."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.messages import prose, result
from trimtab.context.apply.again import measured
from trimtab.context.apply.clearing import cleared_result
from trimtab.context.apply.format import CHAT, Format
from trimtab.context.apply.origins import written_again
from trimtab.context.read.memo import Memo
from trimtab.context.texts import CLEARED_TO_EXTRACT, PLACEHOLDER
from trimtab.dialects.messages.writing import FORMAT as MESSAGES
from trimtab.dialects.mixed import FORMAT as MIXED
from trimtab.dialects.responses.items import FORMAT as RESPONSES

TEXT = 'src/app.py: line 88\n\n  of build_4711 said "no" to café 東京 \t' + prose(2_000)


def of_chat(content: Any, **fields: Any) -> bytes:
    return msgspec.json.encode({"role": "tool", "tool_call_id": "a", "content": content, **fields})


def of_messages(content: Any, **fields: Any) -> bytes:
    return msgspec.json.encode({"type": "tool_result", "tool_use_id": "a", "content": content, **fields})


def of_responses(content: Any, **fields: Any) -> bytes:
    return msgspec.json.encode({"type": "function_call_output", "call_id": "a", "output": content, **fields})


FORMATS = [(CHAT, of_chat), (MIXED, of_chat), (MIXED, of_messages), (MESSAGES, of_messages), (RESPONSES, of_responses)]


def check(raw: bytes, format: Format, tokens: int) -> None:
    """What is measured is what is made; and so is what is written from the origins."""
    made = format.rewrite(raw, "cleared", tokens)
    view = format.view(raw)
    assert measured(raw, view, "cleared", tokens, format, Memo()) == format.view(made).tokens
    found = cleared_result(raw, format.result_field, tokens)
    if found is not None and found.origins is not None:
        assert written_again(found.origins, raw) == made


@pytest.mark.parametrize(("format", "of"), FORMATS)
@pytest.mark.parametrize("tokens", [12, 80, 3_000])
@pytest.mark.parametrize("text", [TEXT, prose(900), "", "src/app.py", f"{CLEARED_TO_EXTRACT}\nsrc/app.py", PLACEHOLDER])
def test_what_is_measured_is_what_is_made(format: Format, of: Any, tokens: int, text: str) -> None:
    check(of(text), format, tokens)
    check(of(text, extra={"content": text, "output": text}), format, tokens)
    check(of([{"type": "text", "text": text}]), format, tokens)


def test_most_results_need_not_be_made() -> None:
    found = cleared_result(of_chat(TEXT), "content", 80)
    assert found is not None
    assert found.origins is not None
    assert written_again(found.origins, of_chat(TEXT)).startswith(b'{"role":"tool","tool_call_id":"a","content":"[This')


@pytest.mark.parametrize(
    "raw",
    [
        result("a", TEXT),  # with blanks
        b'{"role":"tool","content":"a","content":"src/app.py"}',
        b'{"role":"tool","c\\u006fntent":"src/app.py"}',
        b'{"role":"tool","content":["src/app.py"]}',
        b'{"role":"tool","content":"src/app.py\xff"}',
        b'{"role":"tool\xff","content":"src/app.py"}',
        b'{"role":"tool"}',
        b"[]",
        b"{",
    ],
)
def test_what_is_written_in_another_way_is_made(raw: bytes) -> None:
    assert cleared_result(raw, "content", 80) is None


def test_only_the_beginning_of_a_long_result_is_read() -> None:
    raw = of_chat(TEXT + "x1 " * 100_000 + "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"))
    check(raw, CHAT, 80)
    check(json.dumps({"content": "\U0001f600 a.b " * 9_000}, separators=(",", ":")).encode(), CHAT, 80)


WORDS = st.sampled_from(["src/app.py", "ERROR", "line 12", "the", "\n", "  ", "f()", "\U0001f600", "Ж", '"', "\\n"])
TEXTS = st.lists(WORDS, max_size=150).map(" ".join) | st.text(st.characters(codec="utf-8"), max_size=500)


@given(TEXTS, st.sampled_from([12, 40, 80]), st.sampled_from(FORMATS), st.booleans())
def test_any_text(text: str, tokens: int, of: Any, is_ascii: bool) -> None:
    format, make = of
    raw = make(text)
    check(json.dumps(json.loads(raw), separators=(",", ":")).encode() if is_ascii else raw, format, tokens)
