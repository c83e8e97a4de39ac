"""Messages of a body: a list that is read late, and where it lies."""

from __future__ import annotations

import pytest
from msgspec import Raw

from proxy.wire.chat import decode
from proxy.wire.messages import Messages, Place, ends

ALL = [Raw(b"1"), Raw(b"2"), Raw(b"3")]


def test_nothing_is_read_before_it_is_asked_for() -> None:
    asked = []

    def read() -> list[Raw]:
        asked.append(1)
        return ALL

    messages = Messages(ALL[2:], 2, read)
    assert (len(messages), asked) == (3, [])
    assert list(messages) == ALL
    assert messages[0] is ALL[0]
    assert messages[1:] == ALL[1:]
    assert asked == [1]
    assert list(Messages(ALL)) == ALL


@pytest.mark.parametrize(
    "body",
    [
        b'{"messages":[{"a":1},{"b":[2]},"x"]}',
        b'{ "model": "m", "messages" : [ {"a":1} ,\n {"b":[2]}\t,"x" ] , "stream": true}',
        b'{"messages":[{"a":"},{"},{"b":"]"},"x"]}',
        b'{"messages":[1,2,3],"messages":[1,2,3]}',
    ],
)
def test_where_messages_end(body: bytes) -> None:
    fresh = decode(body).messages.fresh
    found = ends(body, fresh)
    assert found is not None
    start, ended = found
    starts = [at - len(raw) for at, raw in zip(ended, fresh, strict=True)]
    assert starts[0] == start
    assert [body[a:b] for a, b in zip(starts, ended, strict=True)] == [bytes(raw) for raw in fresh]
    later = ends(body, fresh[1:], Place(1, start, ended[0]))
    assert later == (start, ended[1:])


@pytest.mark.parametrize(
    "body",
    [
        b'{"messages":[]}',
        b'{"\\u006dessages":[{"a":1}]}',
        b'{"metadata":{"messages":[7]},"messages":[{"a":1}]}',
        b'{"messages":[{"a":1},{"c":3}],"messages":[{"a":1}]}',
    ],
)
def test_a_list_that_is_not_found(body: bytes) -> None:
    assert ends(body, decode(body).messages.fresh) is None
