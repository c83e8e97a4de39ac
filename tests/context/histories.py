"""Histories of every shape, and policies of every kind: hypothesis strategies for the laws.

`conversations()` gives what well-behaved clients send; `odd()` gives what clients really send: results that are late,
doubled or without a call, messages that are not objects, keys that occur twice, content of every type.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from tests.support.messages import WORDS, assistant, system, tool_loop, user
from trimtab.context.policy import Policy, ShapingSettings

_SMALL = [
    "",
    "ok",
    "Ja, bitte.",
    "今日は良い天気です。",
    "\x1b[31mred\x1b[0m",
    '{"a": [1, 2]}',
    "e\u0301\u200d",
    "👩‍👩‍👧",
    "\\u00e9\\n",
]
_UNITS = [
    WORDS,
    "天気は良い。",
    "Zażółć gęślą jaźń ",
    "👩‍🚀🇩🇪",
    '{"id": 17, "ok": true}, ',
    "0f3a9b",
    "\\n\\t",
    "line\r\n",
    "What is it?\n\n",
    "<context>\nLong ago.\n</context>\nWhy?\n",
]

short = st.sampled_from(_SMALL) | st.text(max_size=12)
long = st.builds(lambda unit, n: (unit * (n // len(unit) + 1))[:n], st.sampled_from(_UNITS), st.integers(20, 1_500))
texts = short | long

_IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "iVBORw0KGgo" * 20, "detail": "low"}}
_PARTS: list[Any] = [
    _IMAGE,
    {"type": "image_url", "image_url": {"url": "https://example.invalid/a.png"}},
    {"type": "input_audio", "input_audio": {"data": "UklGR" * 30, "format": "wav"}},
    {"type": "file", "file": {"file_id": "file-1"}},
    {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64," + "JVBERi" * 30}},
    {"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AAAA"}},
    {"type": "refusal", "refusal": "No."},
    {"type": "thinking", "thinking": "hm", "signature": "s"},
    {"type": "text", "text": "cached", "cache_control": {"type": "ephemeral"}},
    {"type": "text", "text": None},
    {"type": "text"},
    {"no": "type"},
    None,
    5,
]
_MARKS: list[dict[str, Any]] = [{}, {}, {}, {"context": True}, {"context": False}]
text_parts = st.builds(lambda text, mark: {"type": "text", "text": text, **mark}, texts, st.sampled_from(_MARKS))
arrays = st.lists(text_parts | st.sampled_from(_PARTS[:9]), max_size=4)
contents = texts | arrays

_VENDOR: list[dict[str, Any]] = [
    {},
    {"name": "alice"},
    {"reasoning_content": "First I think."},
    {"reasoning": "So."},
    {"reasoning_details": [{"type": "reasoning.encrypted", "data": "abc" * 9}]},
    {"cache_control": {"type": "ephemeral"}},
    {"x_vendor": {"n": 1234567890123456789, "f": 1e21, "e": "\u00e9"}},
    {"refusal": None, "annotations": []},
    {"pinned": True},
    {"pinned": False},
]
vendor = st.sampled_from(_VENDOR)
ids = st.sampled_from(["call_0", "call_1", "a1B2c3D4e", ""]) | st.integers(0, 50).map("c{}".format)


def _dump(value: Any, spaced: bool, escaped: bool) -> bytes:
    separators = (", ", ": ") if spaced else (",", ":")
    return json.dumps(value, ensure_ascii=escaped, separators=separators).encode()


def _raw(values: st.SearchStrategy[Any]) -> st.SearchStrategy[bytes]:
    return st.builds(_dump, values, st.booleans(), st.booleans())


def _message(role: str, content: st.SearchStrategy[Any] = contents) -> st.SearchStrategy[bytes]:
    return _raw(st.builds(lambda content, extra: {"role": role, "content": content, **extra}, content, vendor))


systems = st.sampled_from(["system", "developer"]).flatmap(lambda role: _message(role))
users = _message("user")
answers = _message("assistant", texts)
arguments = st.sampled_from(["{}", "", '{"path": "a.py"}', "not json"]) | long.map(
    lambda text: json.dumps({"content": text, "n": [1, 2.5]})
)
tools = st.sampled_from(["read_file", "search", "write_file"])


@st.composite
def cycles(draw: st.DrawFn) -> list[bytes]:
    """An assistant message with tool calls and all of its results, in any order; ids may have been used before."""
    used = draw(st.lists(ids, min_size=1, max_size=3, unique=True))
    declared = [
        {"id": i, "type": "function", "function": {"name": draw(tools), "arguments": draw(arguments)}} for i in used
    ]
    head = {"role": "assistant", "content": draw(st.none() | short), "tool_calls": declared, **draw(vendor)}
    given = [{"role": "tool", "tool_call_id": i, "content": draw(contents), **draw(vendor)} for i in used]
    return [draw(_raw(st.just(m))) for m in [head, *draw(st.permutations(given))]]


@st.composite
def legacy(draw: st.DrawFn) -> list[bytes]:
    """A cycle in the `functions` form."""
    head = {"role": "assistant", "content": None, "function_call": {"name": draw(tools), "arguments": draw(arguments)}}
    return [_dump(m, True, True) for m in (head, {"role": "function", "name": "f", "content": draw(texts)})]


@st.composite
def turns(draw: st.DrawFn) -> list[bytes]:
    """One or two user messages, tool cycles with an interjection here and there, and perhaps an answer."""
    out = draw(st.lists(users, min_size=1, max_size=2))
    for _ in range(draw(st.integers(0, 5))):
        out += draw(cycles() | legacy()) if draw(st.integers(0, 5)) else [draw(users | systems)]
    return out + draw(st.lists(answers, max_size=1))


@st.composite
def conversations(draw: st.DrawFn) -> list[bytes]:
    """What a well-behaved client sends: every call answered at once, ending in a user message or a tool result."""
    out = draw(st.lists(systems, max_size=2)) + draw(st.lists(answers, max_size=1))
    for turn in draw(st.lists(turns(), min_size=1, max_size=5)):
        out += turn
    return out + draw(st.lists(users, max_size=1))


@st.composite
def alternating(draw: st.DrawFn) -> list[bytes]:
    """What a strict chat template takes: one system message, then questions and plain answers by turns, tool cycles
    in between, and perhaps the beginning of an answer; some messages pinned."""
    texts_asked = texts.map(lambda text: text + "?")
    out = draw(st.lists(texts_asked.map(system), max_size=1))
    for k in range(draw(st.integers(1, 6))):
        out += [user(draw(texts_asked)), *tool_loop(draw(st.integers(0, 4)), draw(st.integers(1, 900)), k * 10)]
        out.append(assistant(draw(texts_asked)))
    out += [user(draw(texts_asked)), *tool_loop(draw(st.integers(0, 4)), draw(st.integers(1, 900)), 900)]
    out += draw(st.lists(texts_asked.map(assistant), max_size=1))
    for i in draw(st.lists(st.integers(0, len(out) - 1), max_size=3)):
        out[i] = json.dumps({**json.loads(out[i]), "pinned": True}).encode()
    return out


_STRANGE: list[bytes] = [
    b"null",
    b"5",
    b'"text"',
    b"[]",
    b"[1, [2]]",
    b"{}",
    b'{"role": 5}',
    b'{"role": "user"}',
    b'{"role": "user", "content": 5}',
    b'{"role": "user", "content": {"type": "text", "text": "x"}}',
    b'{"role": "system", "content": 7}',
    b'{"role": "assistant", "content": null}',
    b'{"role": "assistant", "content": ""}',
    b'{"role": "assistant", "tool_calls": null}',
    b'{"role": "assistant", "tool_calls": {}}',
    b'{"role": "assistant", "tool_calls": [null]}',
    b'{"role": "assistant", "tool_calls": [{"id": null, "function": {"name": null, "arguments": {"a": 1}}}]}',
    b'{"role": "assistant", "tool_calls": [{"id": "call_0", "function": null}]}',
    b'{"role": "assistant", "tool_calls": [{"id": "call_1", "type": "custom", "custom": {"name": "sh"}}]}',
    b'{"role": "tool", "content": "no id"}',
    b'{"role": "tool", "tool_call_id": null, "content": "x"}',
    b'{"role": "tool", "tool_call_id": 7, "content": "x"}',
    b'{"role": "tool", "tool_call_id": "call_0", "content": null}',
    b'{"role": "critic", "content": "an unknown role"}',
    b'{"role": "ipython", "content": "1"}',
    b'{"content": "no role"}',
    b'{"role": "user", "content": "first", "content": "second, longer"}',
    b'{"role": "user", "role": "assistant", "content": "x"}',
    b'{"role": "user", "content": "x", "n": 1e999}',
    b'{"role": "user", "content": [{"type": "text", "text": "x", "n": 1e999}]}',
    b'{"role": "user", "content": "lone \\ud83d surrogate"}',
    b'{"role": "user", "content": "bad \xff\xfe bytes"}',
    b'{ "role" : "user" , "content" : "spaces" , "n" : 1.0 }',
    b'{"role": "user", "content": "x", "pinned": 1}',
    b'{"role": "assistant", "content": "x", "name": 5, "pinned": true}',
    b'{"role": "user", "content": ' + b"[" * 3_000 + b"]" * 3_000 + b"}",
]
strange = (
    st.sampled_from(_STRANGE)
    | _raw(st.builds(lambda i, c, e: {"role": "tool", "tool_call_id": i, "content": c, **e}, ids, contents, vendor))
    | _raw(st.builds(lambda parts: {"role": "user", "content": parts}, st.lists(st.sampled_from(_PARTS), max_size=3)))
)


@st.composite
def odd(draw: st.DrawFn) -> list[bytes]:
    """A conversation with some messages lost, doubled, moved or put in from elsewhere."""
    out = draw(conversations())
    for _ in range(draw(st.integers(0, 6))):
        at = draw(st.integers(0, len(out)))
        change = draw(st.sampled_from(_CHANGES))
        if at < len(out) or change is _insert:
            change(out, at, draw)
    return out or [user()]


def _insert(out: list[bytes], at: int, draw: st.DrawFn) -> None:
    out.insert(at, draw(strange))


def _lose(out: list[bytes], at: int, draw: st.DrawFn) -> None:
    del out[at]


def _double(out: list[bytes], at: int, draw: st.DrawFn) -> None:
    out.insert(draw(st.integers(at, len(out))), out[at])


def _move(out: list[bytes], at: int, draw: st.DrawFn) -> None:
    out.insert(draw(st.integers(0, len(out) - 1)), out.pop(at))


_CHANGES: list[Callable[[list[bytes], int, st.DrawFn], None]] = [_insert, _insert, _lose, _double, _move]
histories = conversations() | odd()

_share = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.75, 1.0])
shapings = st.builds(
    ShapingSettings,
    max_message_chars=st.sampled_from([1, 11, 12, 40, 500, 2_000, 50_000]),
    truncate=st.sampled_from(["when_over", "when_over", "always"]),
    cut_context=st.sampled_from(["marked", "guessed"]),
    clear_batch=st.integers(1, 5),
    keep_share=_share,
    target=st.sampled_from([0.0, 0.1, 0.4, 0.6, 0.9, 1.0]),
    pin_share=_share,
    keep_recent=st.sampled_from([0, 1, 2, 4, 8]),
    segment_share=st.sampled_from([0.0, 0.05, 0.15, 0.5]),
    extract_share=st.sampled_from([0.0, 0.1, 0.35, 1.0]),
    result_extract=st.sampled_from([0, 20, 80]),
    exclude_tools=st.sampled_from([(), ("search",), ("read_file", "search", "write_file")]),
    announce=st.booleans(),
    max_messages=st.none() | st.integers(1, 12),
    summarize_after_messages=st.none() | st.integers(1, 12),
)
default_like = st.builds(
    ShapingSettings,
    target=st.sampled_from([0.4, 0.6, 0.9]),
    clear_batch=st.integers(1, 4),
    extract_share=st.sampled_from([0.0, 0.35]),
    result_extract=st.sampled_from([0, 80]),
)


def policies(shaping: st.SearchStrategy[ShapingSettings] = shapings) -> st.SearchStrategy[Policy]:
    plain = st.builds(Policy, shaping=shaping, strict_roles=st.booleans())
    compacting = st.builds(
        Policy,
        shaping=shaping,
        compaction=st.just(True),
        summary_tokens=st.integers(1, 600),
        strict_roles=st.booleans(),
    )
    managed = st.builds(
        Policy,
        shaping=shaping,
        trigger_tokens=st.none() | st.integers(1, 2_000),
        trigger_tool_uses=st.none() | st.integers(0, 4),
        keep_tool_uses=st.integers(0, 4),
        clear_at_least=st.sampled_from([0, 0, 100, 5_000]),
        clear_inputs=st.sampled_from([False, True, ("read_file",)]),
        exclude_tools=st.sampled_from([(), ("search",)]),
        managed=st.just(True),
    )
    return plain | compacting | managed
