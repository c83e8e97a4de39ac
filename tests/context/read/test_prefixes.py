"""Beginnings by name: which is found, what is kept of it, and how much of all."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from tests.support.messages import prose, user
from trimtab.context.read.memo import Memo
from trimtab.context.read.prefixes import Match, Prefix, Prefixes
from trimtab.context.read.views import View
from trimtab.wire.chat import decode

BLOCK = 256  # bytes


def body(*messages: bytes, tail: bytes = b"") -> bytes:
    return b'{"messages":[' + b",".join(messages) + b"]" + tail + b"}"


def read(prefixes: Prefixes, data: bytes) -> Match:
    """What is found of a body that is then kept."""
    found = prefixes.match(data)
    messages = decode(data, found.spans).messages
    prefixes.remember(found, messages, [*found.views, *Memo().views(messages.fresh)])
    return found


def test_the_longest_known_beginning_is_found() -> None:
    prefixes, messages = Prefixes(block=BLOCK), [user("x" * 120) for _ in range(12)]
    size = len(messages[0])
    assert read(prefixes, body(*messages[:3])).prefix is None
    for n in range(4, 12):
        found = read(prefixes, body(*messages[:n]))
        assert found.prefix is not None
        known = 13 + (size + 1) * (n - 1) - 1  # bytes up to the end of the last message known before
        assert known - BLOCK - size <= found.spans[-1].stop <= known
        starts = [13 + (size + 1) * i for i in range(len(found.views))]
        assert found.spans == [slice(start, start + size) for start in starts]
        assert found.prefix.tokens == sum(view.tokens for view in found.views)


def test_what_follows_the_messages_names_nothing() -> None:
    """Tools after the messages come again behind other messages: a block of them is never asked for."""
    prefixes = Prefixes(block=BLOCK)
    tools = b',"tools":[' + msgspec.json.encode("x" * 4_000) + b"]"
    data = body(*[user(prose(80))] * 8, tail=tools)
    read(prefixes, data)
    assert len(prefixes._known._young) == data.index(b"]") // BLOCK


def test_another_beginning_is_not_found() -> None:
    prefixes = Prefixes(block=BLOCK)
    read(prefixes, body(user("a" * 600), user("b" * 600)))
    assert prefixes.match(body(user("c" * 600), user("b" * 600))).prefix is None
    assert prefixes.match(b"x" * 100).digests == []


def test_a_prefix_is_its_owners_alone() -> None:
    prefixes, data = Prefixes(block=BLOCK), body(user("a" * 600), user("b" * 600))
    messages = decode(data).messages
    prefixes.remember(prefixes.match(data, b"mine"), messages, Memo().views(messages))
    assert prefixes.match(data, b"mine").prefix is not None
    assert prefixes.match(data, b"yours").prefix is None
    assert prefixes.match(data).prefix is None


def test_it_is_bounded() -> None:
    prefixes, several = Prefixes(capacity=100, block=BLOCK), 20
    for topic in range(50):
        read(prefixes, body(*[user(f"{topic} {prose(90)}")] * several))
    rules = [*prefixes._known._young.values(), *prefixes._known._old.values()]
    assert 100 < sum(1 + len(prefix.views) for prefix in rules) <= 200


def reachable(prefixes: Prefixes) -> int:
    """Messages of which something is kept alive, by a prefix that has a name or by one that comes after it."""
    rules: dict[int, Prefix] = {}
    for prefix in [*prefixes._known._young.values(), *prefixes._known._old.values()]:
        at: Prefix | None = prefix
        while at is not None:
            rules[id(at)], at = at, at.before
    return sum(len(prefix.views) for prefix in rules.values())


def test_what_comes_before_a_prefix_in_use_counts_too() -> None:
    """Only the last name of a conversation is asked for again; the prefixes before it stay with it."""
    prefixes, talks = Prefixes(capacity=300, block=BLOCK), []
    for topic in range(200):
        talks = [body(*[user(f"{topic} {i} {prose(90)}") for i in range(50)]), *talks[:19]]
        for talk in talks:
            read(prefixes, talk)
        assert reachable(prefixes) <= 2 * 300 + 50


def test_what_is_in_use_outlives_what_is_not() -> None:
    prefixes, mine = Prefixes(capacity=100, block=BLOCK), body(*[user(prose(160))] * 6)
    read(prefixes, mine)
    for topic in range(200):
        read(prefixes, body(*[user(f"{topic} {prose(90)}")] * 6))
        assert prefixes.match(mine).prefix is not None
    assert prefixes.match(body(*[user(f"0 {prose(90)}")] * 6)).prefix is None


def test_marks_are_counted_from_the_first_message() -> None:
    views = [View("user", n) for n in (1, 2, 4)]
    first = Prefix(views[:2], [slice(0, 5), slice(6, 10)], 3, (1,), 2, 0)
    assert Prefix(views[2:], [slice(11, 20)], 7, (1, 2), 3, 0, first).all() == (
        views,
        [slice(0, 5), slice(6, 10), slice(11, 20)],
        {},
    )
    marked = msgspec.json.encode({"role": "user", "content": "y" * 300, "pinned": True})
    prefixes = Prefixes(block=BLOCK)
    read(prefixes, body(user("x" * 300), marked))
    data = body(user("x" * 300), marked, marked, user("z" * 300))
    read(prefixes, data)
    prefix = prefixes.match(data).prefix
    assert prefix is not None
    assert prefix.marked == (1, 2)
    assert Raw(marked) == decode(data).messages[1]
