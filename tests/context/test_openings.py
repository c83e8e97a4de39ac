"""Beginnings by name: which is found, what is kept of it, and how much of all."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from proxy.context.openings import Opening, Openings
from proxy.context.views import Memo, View
from proxy.wire.chat import decode
from proxy.wire.messages import Place
from tests.context.conversations import prose, user

BLOCK = 256  # bytes


def body(*messages: bytes, tail: bytes = b"") -> bytes:
    return b'{"messages":[' + b",".join(messages) + b"]" + tail + b"}"


def read(openings: Openings, data: bytes) -> Opening | None:
    """What is found of a body that is then kept."""
    found = openings.find(data)
    fresh = decode(data, found.opening.place if found.opening else None).messages.fresh
    openings.keep(found, data, fresh, Memo().views(fresh))
    return found.opening


def test_the_longest_known_beginning_is_found() -> None:
    openings, messages = Openings(block=BLOCK), [user("x" * 120) for _ in range(12)]
    size = len(messages[0])
    assert read(openings, body(*messages[:3])) is None
    for n in range(4, 12):
        opening = read(openings, body(*messages[:n]))
        assert opening is not None
        whole = 13 + (size + 1) * (n - 1) - 1  # bytes up to the end of the last message known before
        assert opening.place.end <= whole // BLOCK * BLOCK
        assert opening.place == Place(opening.place.count, 13, 12 + (size + 1) * opening.place.count)
        assert opening.tokens == sum(view.tokens for view in opening.all_views())
        assert len(opening.all_views()) == opening.place.count


def test_what_follows_the_messages_names_nothing() -> None:
    """Tools after the messages come again behind other messages: a block of them is never asked for."""
    openings = Openings(block=BLOCK)
    tools = b',"tools":[' + msgspec.json.encode("x" * 4_000) + b"]"
    data = body(*[user(prose(80))] * 8, tail=tools)
    read(openings, data)
    assert len(openings._young) == data.index(b"]") // BLOCK


def test_another_beginning_is_not_found() -> None:
    openings = Openings(block=BLOCK)
    read(openings, body(user("a" * 600), user("b" * 600)))
    assert openings.find(body(user("c" * 600), user("b" * 600))).opening is None
    assert openings.find(b"x" * 100).names == []


def test_it_is_bounded() -> None:
    openings, several = Openings(capacity=100, block=BLOCK), 20
    for topic in range(50):
        read(openings, body(*[user(f"{topic} {prose(90)}")] * several))
    held = [*openings._young.values(), *openings._old.values()]
    assert 100 < sum(1 + len(opening.views) for opening in held) <= 200


def test_what_is_in_use_outlives_what_is_not() -> None:
    openings, mine = Openings(capacity=100, block=BLOCK), body(*[user(prose(160))] * 6)
    read(openings, mine)
    for topic in range(200):
        read(openings, body(*[user(f"{topic} {prose(90)}")] * 6))
        assert openings.find(mine).opening is not None
    assert openings.find(body(*[user(f"0 {prose(90)}")] * 6)).opening is None


def test_marks_are_counted_from_the_first_message() -> None:
    first = Opening(Place(2, 0, 10), [View("user", 1), View("user", 2)], 3, (1,))
    assert Opening(Place(3, 0, 20), [View("user", 4)], 7, (1, 2), first).all_views() == [
        View("user", 1),
        View("user", 2),
        View("user", 4),
    ]
    marked = msgspec.json.encode({"role": "user", "content": "y" * 300, "pinned": True})
    openings = Openings(block=BLOCK)
    read(openings, body(user("x" * 300), marked))
    data = body(user("x" * 300), marked, marked, user("z" * 300))
    read(openings, data)
    opening = openings.find(data).opening
    assert opening is not None
    assert opening.marked == (1, 2)
    assert Raw(marked) == decode(data).messages[1]
