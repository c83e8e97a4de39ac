"""Beginnings by name: which is found, what is kept of it, and how much of all."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from tests.context.conversations import prose, user
from trimtab.context.read.openings import Found, Opening, Openings
from trimtab.context.read.views import Memo, View
from trimtab.wire.chat import decode

BLOCK = 256  # bytes


def body(*messages: bytes, tail: bytes = b"") -> bytes:
    return b'{"messages":[' + b",".join(messages) + b"]" + tail + b"}"


def read(openings: Openings, data: bytes) -> Found:
    """What is found of a body that is then kept."""
    found = openings.find(data)
    messages = decode(data, found.spans).messages
    openings.keep(found, messages, [*found.views, *Memo().views(messages.fresh)])
    return found


def test_the_longest_known_beginning_is_found() -> None:
    openings, messages = Openings(block=BLOCK), [user("x" * 120) for _ in range(12)]
    size = len(messages[0])
    assert read(openings, body(*messages[:3])).opening is None
    for n in range(4, 12):
        found = read(openings, body(*messages[:n]))
        assert found.opening is not None
        known = 13 + (size + 1) * (n - 1) - 1  # bytes up to the end of the last message known before
        assert known - BLOCK - size <= found.spans[-1].stop <= known
        starts = [13 + (size + 1) * i for i in range(len(found.views))]
        assert found.spans == [slice(start, start + size) for start in starts]
        assert found.opening.tokens == sum(view.tokens for view in found.views)


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


def test_an_opening_is_its_owners_alone() -> None:
    openings, data = Openings(block=BLOCK), body(user("a" * 600), user("b" * 600))
    messages = decode(data).messages
    openings.keep(openings.find(data, b"mine"), messages, Memo().views(messages))
    assert openings.find(data, b"mine").opening is not None
    assert openings.find(data, b"yours").opening is None
    assert openings.find(data).opening is None


def test_it_is_bounded() -> None:
    openings, several = Openings(capacity=100, block=BLOCK), 20
    for topic in range(50):
        read(openings, body(*[user(f"{topic} {prose(90)}")] * several))
    held = [*openings._young.values(), *openings._old.values()]
    assert 100 < sum(1 + len(opening.views) for opening in held) <= 200


def reachable(openings: Openings) -> int:
    """Messages of which something is kept alive, by an opening that has a name or by one that comes after it."""
    held: dict[int, Opening] = {}
    for opening in [*openings._young.values(), *openings._old.values()]:
        at: Opening | None = opening
        while at is not None:
            held[id(at)], at = at, at.before
    return sum(len(opening.views) for opening in held.values())


def test_what_comes_before_an_opening_in_use_counts_too() -> None:
    """Only the last name of a conversation is asked for again; the openings before it stay with it."""
    openings, talks = Openings(capacity=300, block=BLOCK), []
    for topic in range(200):
        talks = [body(*[user(f"{topic} {i} {prose(90)}") for i in range(50)]), *talks[:19]]
        for talk in talks:
            read(openings, talk)
        assert reachable(openings) <= 2 * 300 + 50


def test_what_is_in_use_outlives_what_is_not() -> None:
    openings, mine = Openings(capacity=100, block=BLOCK), body(*[user(prose(160))] * 6)
    read(openings, mine)
    for topic in range(200):
        read(openings, body(*[user(f"{topic} {prose(90)}")] * 6))
        assert openings.find(mine).opening is not None
    assert openings.find(body(*[user(f"0 {prose(90)}")] * 6)).opening is None


def test_marks_are_counted_from_the_first_message() -> None:
    views = [View("user", n) for n in (1, 2, 4)]
    first = Opening(views[:2], [slice(0, 5), slice(6, 10)], 3, (1,))
    assert Opening(views[2:], [slice(11, 20)], 7, (1, 2), first).all() == (
        views,
        [slice(0, 5), slice(6, 10), slice(11, 20)],
    )
    marked = msgspec.json.encode({"role": "user", "content": "y" * 300, "pinned": True})
    openings = Openings(block=BLOCK)
    read(openings, body(user("x" * 300), marked))
    data = body(user("x" * 300), marked, marked, user("z" * 300))
    read(openings, data)
    opening = openings.find(data).opening
    assert opening is not None
    assert opening.marked == (1, 2)
    assert Raw(marked) == decode(data).messages[1]
