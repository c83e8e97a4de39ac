"""What a client sets for this proxy is cut out, and every other byte stays."""

from __future__ import annotations

import msgspec
import pytest

from trimtab.context.apply.marks import is_marked, may_have_marks, unpin

MARKED: dict[str, tuple[bytes, bytes]] = {
    "pinned first": (b'{"pinned": true, "role": "user"}', b'{"role": "user"}'),
    "pinned last": (b'{ "role" : "user" , "pinned" : 1 }', b'{ "role" : "user" }'),
    "pinned alone": (b'{"pinned": null}', b"{}"),
    "a part": (
        b'{"role":"user", "content": [ {"type":"text", "context": true, "text":"a"} , {"type":"text","text":"b"} ]}',
        b'{"role":"user", "content": [ {"type":"text", "text":"a"} , {"type":"text","text":"b"} ]}',
    ),
    "an item's part, and pinned": (
        b'{"content": [{"type": "input_text", "text": "a", "context": false}], "pinned": true, "n": 1.0}',
        b'{"content": [{"type": "input_text", "text": "a"}], "n": 1.0}',
    ),
    "a block": (b'{"type":"text","text":"\xc3\xa9","context":true}', b'{"type":"text","text":"\xc3\xa9"}'),
    "a name with escapes": (
        b'{"content": [{"type": "text", "text": "a", "conte\\u0078t": true}]}',
        b'{"content": [{"type":"text","text":"a"}]}',
    ),
    "a pinned part": (
        b'{"role":"user","content":[{"type":"image_url","pinned":true,"image_url":{"url":"a"}},{"type":"text","text":"b"}]}',
        b'{"role":"user","content":[{"type":"image_url","image_url":{"url":"a"}},{"type":"text","text":"b"}]}',
    ),
    "a result in a user message": (
        b'{"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":"a","context":true}],"n":1.0}]}',
        b'{"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":"a"}],"n":1.0}]}',
    ),
    "a result's own part": (
        b'{"type":"tool_result","content":[{"type":"text","text":"a","context":false}],"pinned":true}',
        b'{"type":"tool_result","content":[{"type":"text","text":"a"}]}',
    ),
    "an item's output": (
        b'{"type":"function_call_output","output":[ {"type":"input_text","text":"a","context":true} ]}',
        b'{"type":"function_call_output","output":[ {"type":"input_text","text":"a"} ]}',
    ),
    "a part of the AI SDK": (
        b'{"role":"tool","content":[{"type":"tool-result","output":{"type":"content","value":[{"type":"text","text":"a","context":true}]}}]}',
        b'{"role":"tool","content":[{"type":"tool-result","output":{"type":"content","value":[{"type":"text","text":"a"}]}}]}',
    ),
    "parts that are no parts": (
        b'{"content": [5, null, "x", [], {"type": "text", "text": "a", "context": true}]}',
        b'{"content": [5, null, "x", [], {"type": "text", "text": "a"}]}',
    ),
}


@pytest.mark.parametrize(("raw", "left"), MARKED.values(), ids=MARKED)
def test_a_mark_is_cut_out_and_every_other_byte_stays(raw: bytes, left: bytes) -> None:
    assert may_have_marks(raw)
    assert is_marked(raw)
    assert unpin(raw) == left
    assert not is_marked(left)


OTHERS = {
    "no mark": b'{"role": "user", "content": "context, pinned down"}',
    "a document's own context": b'{"content": [{"type": "document", "source": {}, "context": "A report."}]}',
    "not a truth value": b'{"content": [{"type": "text", "text": "a", "context": "x"}]}',
    "another part": b'{"content": [{"type": "image_url", "context": true}]}',
    "a field of the message": b'{"role": "user", "content": "a", "context": true}',
    "a part without a type": b'{"content": [{"pinned": true}]}',
    "what a tool was given": b'{"content": [{"type": "tool_use", "input": {"type": "text", "pinned": true}}]}',
    "what a tool found": (
        b'{"content": [{"type": "tool-result", "output": {"type": "json", "value": [{"type": "x", "pinned": true}]}}]}'
    ),
    "text": b'{"content": "{\\"context\\": true}"}',
    "no object": b"[1]",
    "no JSON": b'{"pinned',
    "too deep": b'{"context": ' + b"[" * 3_000,
}


@pytest.mark.parametrize("raw", OTHERS.values(), ids=OTHERS)
def test_what_is_not_ours_stays(raw: bytes) -> None:
    assert not is_marked(raw)


def test_many_fields_are_written_again() -> None:
    raw = msgspec.json.encode({**{f"f{n}": n for n in range(200)}, "pinned": True})
    assert msgspec.json.decode(unpin(raw)) == {f"f{n}": n for n in range(200)}
