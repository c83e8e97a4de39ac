"""Whatever was read before, a body is read as if it were the first."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.messages import prose, tool_loop, user
from trimtab.context.read.history import History, Reader, history
from trimtab.context.read.memo import Memo
from trimtab.context.read.prefixes import STRIDE, Prefixes
from trimtab.wire.chat import decode, render
from trimtab.wire.request import Request, Unreadable


def test_a_check_is_asked_before_decoding_for_the_part_that_is_new() -> None:
    asked: list[int] = []
    reader = Reader(Memo(), Prefixes(stride=64))
    body = b'{"messages":[' + b",".join([b'{"role":"user","content":"%d"}' % i for i in range(20)])
    for end in (b"]}", b',{"role":"user","content":"new"}]}'):
        reader.history(reader.read(body + end, b"", lambda _, start: asked.append(start)))
    assert asked[0] == 0
    assert len(body) - 64 - 40 < asked[1] < len(body)

    def refuse(body: bytes, start: int) -> None:
        raise ValueError(start)

    with pytest.raises(ValueError, match=r"^0$"):
        reader.read(b"no JSON at all", b"", refuse)


class Repeated:
    """Reads bodies one after the other."""

    def __init__(self, stride: int = 64) -> None:
        self.prefixes = Prefixes(stride=stride)
        self.reader = Reader(Memo(), self.prefixes)
        self.stepped_over = 0

    def read(self, body: bytes) -> tuple[Request, History]:
        reading = self.reader.read(body)
        self.stepped_over, self.match = len(reading.request.messages.known), reading.match
        return reading.request, self.reader.history(reading)

    def check(self, body: bytes) -> None:
        """Read a body and compare with reading it for the first time."""
        plain = decode(body)
        fresh = history(list(plain.messages), plain.extras, Memo())
        request, made = self.read(body)
        assert (made.views, made.tokens, made.marked) == (fresh.views, fresh.tokens, fresh.marked)
        for newest in (0, 1, 3, len(made.views)):  # its beginnings have the same names
            names = fresh.chains(newest)
            assert made.chains(newest)[-newest - 1 :] == names[-newest - 1 :]
        assert len(request.messages) == len(plain.messages)
        assert [bytes(raw) for raw in request.messages] == [bytes(raw) for raw in plain.messages]
        for name in ("body", "source", "model", "stream", "max_tokens", "has_tools", "stream_options"):
            assert getattr(request, name) == getattr(plain, name)
        for sent in ([b"1"], []):
            assert render(request, sent, {"max_tokens": 7}) == render(plain, sent, {"max_tokens": 7})
            assert json.loads(render(plain, sent, {}))["messages"] == [int(raw) for raw in sent]
        assert [bytes(raw) for raw in request.extras] == [bytes(raw) for raw in plain.extras]


def growing(
    messages: list[Any], head: str = '{"model": "m", ', tail: str = ', "stream": true}', **dump: Any
) -> list[bytes]:
    """The bodies of one conversation, one for each of its lengths."""
    return [f'{head}"messages": {json.dumps(messages[:n], **dump)}{tail}'.encode() for n in range(1, len(messages) + 1)]


def chat(n: int) -> list[dict[str, Any]]:
    return [{"role": ("user", "assistant")[i % 2], "content": f"{i} {prose(20)}"} for i in range(n)]


def test_a_conversation_is_read_once() -> None:
    reader = Repeated(stride=1024)
    for body in growing(chat(60)):
        reader.check(body)
    assert reader.stepped_over >= 45  # of 60; the rest stands in the last stride, which is not complete


def test_at_the_stride_as_it_ships() -> None:
    reader = Repeated(stride=STRIDE)
    bodies = growing(chat(1_500))
    for body in bodies[1_300:1_500:7]:
        reader.check(body)
    assert len(reader.match.digests) == reader.match.covered == len(bodies[-1]) // STRIDE


@pytest.mark.parametrize("dump", [{}, {"indent": 1}, {"separators": (",", ":")}, {"separators": (" \n,\t", ":")}])
@pytest.mark.parametrize("head", ["{", '{"tools":[{"a":"messages"}],"model":"m",', '\n {"metadata":{"x":[1]} ,'])
@pytest.mark.parametrize("tail", ["}", ',"tools":[{"type":"function"}],"max_tokens":5}', ',"tool_choice":"auto" } \n'])
def test_in_every_layout(dump: dict[str, Any], head: str, tail: str) -> None:
    reader = Repeated()
    messages = [json.loads(raw) for raw in [user(), *tool_loop(6)]]
    messages[2]["pinned"] = True
    for body in growing(messages, head, tail, **dump):
        reader.check(body)
    assert reader.stepped_over


TWICE = '{"messages": %s, "messages": %s}'
LATE = '{"messages": %s, "metadata": {"messages": [1, 2]}, "model": "late"}'
EARLY = '{"metadata": {"messages": %s}, "messages": %s}'
ESCAPED = '{"\\u006dessages": %s}'


def test_bodies_that_name_their_messages_in_other_ways() -> None:
    """Twice, elsewhere too, with escapes: the list that counts is the one a parser takes."""
    reader = Repeated()
    lists = [json.dumps(chat(n)) for n in range(1, 12)]
    for one, other in pairwise(lists):
        for shape in (TWICE, EARLY):
            reader.check((shape % (one, other)).encode())
            reader.check((shape % (other, one)).encode())
            reader.check((shape % (one, one)).encode())
        reader.check((LATE % one).encode())
        reader.check((ESCAPED % one).encode())
        reader.check((TWICE % (one, "[]")).encode())


def test_a_beginning_with_another_end() -> None:
    """The same first bytes, and then something else: an edit, a list that ends earlier, no list at all."""
    reader = Repeated()
    body = growing(chat(12))[-1]
    reader.check(body)
    for cut in range(len(body) - 1, 0, -7):
        with pytest.raises(Exception, match="JSON"):
            reader.read(body[:cut])
        for rest in (b'"}]}', b'changed"}]}', b"\\u00e4", b'","pinned":true}]}'):
            try:
                plain = decode(body[:cut] + rest)
            except Exception:
                continue
            assert plain
            reader.check(body[:cut] + rest)
    reader.check(body)


def test_lone_surrogates_before_and_after() -> None:
    reader = Repeated()
    good = json.dumps(chat(8))[:-1]
    bad = b',{"role":"user","content":"\\ud800"}'
    for start in (b"", bad.removeprefix(b",") + b","):
        for end in (b"", bad, bad + b',{"role":"user","content":"' + b"x" * 200 + b'"}'):
            body = b'{"messages":[' + start + good.encode()[1:] + end + b"]}"
            reader.check(body)
            reader.check(body)


def test_what_is_no_request_stays_none() -> None:
    reader = Repeated()
    body = growing(chat(8))[-1]
    reader.check(body)
    with pytest.raises(Unreadable):
        reader.read(body.replace(b'"messages"', b'"input"'))
    reader.check(body.replace(b'"stream": true', b'"stream": "yes"'))  # a wrong type is read leniently


def test_one_large_message_spans_strides() -> None:
    reader = Repeated()
    messages = [{"role": "system", "content": "x" * 1_000}, *chat(3), {"role": "user", "content": "y" * 700}, *chat(3)]
    for body in growing(messages):
        reader.check(body)
        reader.check(body)


_text = st.text(max_size=40)
_message = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool", "system"]), "content": _text},
    optional={"pinned": st.booleans(), "name": _text, "tool_call_id": _text},
)


@given(st.lists(st.lists(_message, min_size=1, max_size=6), max_size=6), st.sampled_from([16, 64, 200]), st.booleans())
def test_any_conversations_side_by_side(histories: list[list[Any]], stride: int, ascii_only: bool) -> None:
    reader = Repeated(stride)
    for messages in histories:
        for body in growing(messages, ensure_ascii=ascii_only):
            reader.check(body)
