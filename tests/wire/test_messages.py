"""Messages of a body: a list that is read late, and its place in the body."""

from __future__ import annotations

import pytest
from msgspec import Raw

from tests.dialects.turns import cycle, user
from trimtab.dialects.messages import MESSAGES
from trimtab.wire.chat import decode
from trimtab.wire.messages import Group, Messages, Parts, new_bytes

BODY = b'{"messages":[{"a":1},{"b":[2]}, "x"]}'
KNOWN = [slice(13, 20), slice(21, 30)]


def test_what_is_known_is_taken_from_its_place() -> None:
    messages = Messages(BODY, [Raw(b'"x"')], KNOWN)
    assert len(messages) == 3
    assert [bytes(raw) for raw in messages] == [b'{"a":1}', b'{"b":[2]}', b'"x"']
    assert bytes(messages[1]) == b'{"b":[2]}'
    assert [bytes(raw) for raw in messages[1:]] == [b'{"b":[2]}', b'"x"']
    assert messages.spans == [*KNOWN, slice(32, 35)]
    fresh = [Raw(b"1")]
    assert Messages(b"[1]", fresh).all is fresh


@pytest.mark.parametrize(
    "body",
    [
        BODY,
        b'{ "model": "m", "messages" : [ {"a":1} ,\n {"b":[2]}\t,"x" ] , "stream": true}',
        b'{"messages":[{"a":"},{"},{"b":"]"},"x"]}',
        b'{"messages":[1,2,3],"messages":[1,2,3]}',
    ],
)
def test_the_places_of_messages(body: bytes) -> None:
    messages = decode(body).messages
    assert messages.spans is not None
    assert [body[span] for span in messages.spans] == [bytes(raw) for raw in messages]
    known = messages.spans[:1]
    again = decode(body, known).messages
    if body.count(b"messages") == 1:
        assert (again.known, again.spans) == (known, messages.spans)
    else:  # the list that counts is the second
        assert again.known == []


@pytest.mark.parametrize(
    "body",
    [
        b'{"messages":[]}',
        b'{"\\u006dessages":[{"a":1}]}',
        b'{"metadata":{"messages":[7]},"messages":[{"a":1}]}',
        b'{"messages":[{"a":1},{"c":3}],"messages":[{"a":1}]}',
        b'{"metadata":{"messages":[7]},"messages":[7,8888888888888888888888888888888888888888,{"a":1}]}',
    ],
)
def test_a_list_that_is_not_found(body: bytes) -> None:
    assert decode(body).messages.spans is None


def test_new_are_the_bytes_behind_the_known_messages() -> None:
    body = b'{"messages":[{"a":1},{"b":2}],"x":1}'
    fresh = [Raw(b'{"b":2}')]
    assert new_bytes(body, Messages(body, fresh, [slice(13, 20)])) == len(body) - 20
    assert new_bytes(body, Messages(body, fresh)) == new_bytes(body, fresh) == len(body)


def test_messages_are_sent_each_by_itself() -> None:
    messages = Messages(BODY, [Raw(b'"x"')], KNOWN)
    assert [messages.place(at) for at in range(3)] == [*(messages.spans or ())]
    assert [messages.message_at(at) for at in range(3)] == [0, 1, 2]
    assert messages.rest(1) == [b'{"b":[2]}', b'"x"']
    assert messages.grouped([0, -1, 2], BODY.__getitem__) == [Group(0, 1, 0), Group(1, 2), Group(2, 3, 2)]


def test_the_places_of_parts() -> None:
    request = MESSAGES.decode(b'{"messages":[%b]}' % b",".join([user("Go."), *cycle(1, "found", 2), user("On.")]))
    parts = request.messages
    assert isinstance(parts, Parts)
    assert [request.body[parts.place(at)] for at in range(len(parts))] == [bytes(raw) for raw in parts]
    assert [parts.message_at(at) for at in range(6)] == [0, 1, 2, 3, 3, 4]
    assert parts.rest(3) == [user("On.")]
    whole, loose = [Group(0, 1, 0), Group(1, 2, 1), Group(2, 4, 2), Group(4, 5, 3)], Group(1, 2, is_new=True)
    assert parts.grouped([0, 1, 2, 3, 4], parts.__getitem__) == whole
    assert parts.grouped([1, 3, 4], parts.__getitem__) == [Group(0, 1, 1), loose, Group(2, 3, 3)]
