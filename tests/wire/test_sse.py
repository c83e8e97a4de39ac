"""The events of a stream, however it is cut, ended, or broken; and frames that lose no byte."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.wire.sse import Editor, Tap, data_of, event

STREAMS = {
    "as usual": (b'data: {"a":1}\n\ndata: [DONE]\n\n', [b'{"a":1}', b"[DONE]"]),
    "no space": (b'data:{"a":1}\n\ndata:[DONE]\n\n', [b'{"a":1}', b"[DONE]"]),
    "only one space is the format's": (b"data:  a\n\n", [b" a"]),
    "CRLF": (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
    "bare CR": (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
    "mixed line ends": (b"data: a\r\n\ndata: b\n\r\ndata: c\r\n\r", [b"a", b"b", b"c"]),
    "byte order mark": (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
    "a byte order mark later on is text": (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", [b"a"]),
    "comments": (b": ping\n\n: x\ndata: a\n: y\n\n", [b"a"]),
    "several lines": (b"data: a\ndata\ndata:\ndata: b\n\n", [b"a\n\n\nb"]),
    "other fields": (b"event: response.created\nid: 1\nretry: 5\ndata: a\n\nevent: x\n\n", [b"a"]),
    "a field that only begins like it": (b"database: a\n\n", []),
    "blank lines in between": (b"\n\n\ndata: a\n\n\n\n\ndata: b\n\n", [b"a", b"b"]),
    "no blank line at the end": (b"data: a\n\ndata: b", [b"a", b"b"]),
    "no blank line but a line end": (b"data: a\n\ndata: b\n", [b"a", b"b"]),
    "several lines in the usual chunk": (b"data: a\ndata: b\n\ndata: c\n\n", [b"a\nb", b"c"]),
    "a split emoji and CJK": ("data: 北京 🛥\n\n".encode(), ["北京 🛥".encode()]),
    "malformed JSON": (b'data: {"a":\n\ndata: null\n\n', [b'{"a":', b"null"]),
    "nothing": (b"", []),
}


def tapped(chunks: Iterable[bytes], limit: int = 1000) -> list[bytes]:
    tap = Tap(limit)
    return [data for chunk in chunks for data in tap.feed(chunk)] + tap.flush()


def pieces(stream: bytes, size: int) -> list[bytes]:
    return [stream[i : i + size] for i in range(0, len(stream), size)]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(("stream", "expected"), STREAMS.values(), ids=STREAMS)
def test_the_data_of_every_event(stream: bytes, expected: list[bytes], size: int) -> None:
    assert tapped(pieces(stream, size)) == expected


@pytest.mark.parametrize("stream", [b"data: a\n\n", b"data: a\r\n\r\n", b"data: a\r\r", b"data: a\r\n\n"])
def test_an_event_is_given_as_soon_as_its_blank_line_is_there(stream: bytes) -> None:
    tap = Tap()
    assert tap.feed(stream[:-1]) == ([b"a"] if stream.endswith(b"\r\n\r\n") else [])
    assert tapped([stream]) == [b"a"]
    editor = Editor()
    assert [frame.data for frame in editor.feed(stream)] == [b"a"]


WORDS = [b"data: ", b"data:", b"data", b": ", b"event: e", b"{}", b"x", b" ", b'{"usage":{}}', b"\xf0\x9f"]
ENDS = [b"\n", b"\r", b"\r\n", b"\n\n", b"\r\r", b"\r\n\r\n", b"\xef\xbb\xbf"]
EVENTS = st.lists(st.sampled_from([*WORDS, *ENDS]), max_size=30).map(b"".join)


@given(EVENTS, st.lists(st.integers(1, 9), max_size=40))
def test_cutting_changes_nothing(stream: bytes, sizes: list[int]) -> None:
    cut, rest = [], stream
    for size in sizes:
        cut.append(rest[:size])
        rest = rest[size:]
    assert tapped([*cut, rest]) == tapped([stream]) == tapped(pieces(stream, 1))


@given(EVENTS | st.binary(max_size=200), st.integers(1, 20), st.integers(4, 40))
def test_frames_joined_are_the_stream(stream: bytes, size: int, limit: int) -> None:
    editor = Editor(limit)
    frames = [frame for chunk in pieces(stream, size) for frame in editor.feed(chunk)] + editor.flush()
    assert b"".join(frame.raw for frame in frames) == stream


@given(st.binary(max_size=300), st.integers(4, 50))
def test_any_bytes_are_taken(stream: bytes, limit: int) -> None:
    tapped(pieces(stream, 3), limit)


def test_a_frame_is_one_whole_event_so_that_it_can_be_left_out() -> None:
    stream = b'data: {"a":1}\n\n: ping\n\ndata: {"usage":{}}\r\n\r\ndata: [DONE]\n\n'
    for size in (1, 5, 1000):
        editor = Editor()
        frames = [frame for chunk in pieces(stream, size) for frame in editor.feed(chunk)]
        kept = b"".join(frame.raw for frame in frames if b"usage" not in (frame.data or b""))
        assert tapped([kept]) == [b'{"a":1}', b"[DONE]"]
        assert b": ping\n\n" in kept


@pytest.mark.parametrize("size", [1, 10, 10_000])
def test_an_event_too_large_to_hold_passes_unread_and_the_next_is_read(size: int) -> None:
    stream = b"data: " + b"x" * 500 + b"\n\ndata: a\n\n"
    assert tapped(pieces(stream, size), limit=100) == [b"a"]
    editor = Editor(limit=100)
    held = [len(editor._held) for chunk in pieces(stream, size) if editor.feed(chunk) is not None]
    assert max(held) <= 100


def test_a_large_event_in_small_pieces_costs_no_more_than_its_size() -> None:
    data = b"x" * 300_000
    assert tapped(pieces(event(data), 16), limit=1_000_000) == [data]


def test_what_is_written_is_read_back() -> None:
    assert data_of(event(b'{"a":1}')) == b'{"a":1}'
    assert data_of(b": trimtab {}\n\n") is None
    assert data_of(b"data: x\nz") == b"x"


def streams_of(case: dict[str, Any]) -> list[bytes]:
    given = [case["repro"].get(name) for name in ("upstream_sse", "upstream_sse_raw")]
    joined = ["".join(value) for value in given if value]
    return [text.encode() for text in joined if text.startswith("data:")]


def test_recorded_streams_give_events_and_keep_their_bytes(shared: Path) -> None:
    cases = [json.loads(line) for line in (shared / "cases" / "bug_cases.jsonl").read_text().splitlines()]
    streams = [stream for case in cases for stream in streams_of(case)]
    assert len(streams) >= 5
    for stream in streams:
        editor = Editor()
        frames = [frame for chunk in pieces(stream, 1) for frame in editor.feed(chunk)] + editor.flush()
        assert b"".join(frame.raw for frame in frames) == stream
        assert any(frame.data for frame in frames)


@pytest.mark.parametrize("size", [1_000, 1_000_000])
def test_an_event_of_very_many_lines_passes_unread(size: int) -> None:
    stream, editor = b"data: 1\n" * 20_000 + b"\ndata: a\n\n", Editor()
    frames = [frame for at in range(0, len(stream), size) for frame in editor.feed(stream[at : at + size])]
    assert b"".join(frame.raw for frame in frames) == stream
    assert [frame.data for frame in frames if frame.data] == [b"a"]
