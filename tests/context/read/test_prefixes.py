"""Beginnings by name: which is found, what is kept of it, and how much of all."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from msgspec import Raw

from tests.support.messages import prose, user
from trimtab.context.read.memo import Memo
from trimtab.context.read.prefix import Prefix
from trimtab.context.read.prefixes import Longest, Match, Prefixes, messages_within
from trimtab.context.read.shelf import Shelf, packed
from trimtab.wire.chat import decode

STRIDE = 256  # bytes


def body(*messages: bytes, tail: bytes = b"") -> bytes:
    return b'{"messages":[' + b",".join(messages) + b"]" + tail + b"}"


def read(prefixes: Prefixes, data: bytes) -> Match:
    """What is found of a body that is then kept."""
    found = prefixes.match(data)
    messages = decode(data, found.spans).messages
    prefixes.remember(found, messages, [*found.views, *Memo().views(messages.fresh)])
    return found


def test_the_longest_known_beginning_is_found() -> None:
    prefixes, messages = Prefixes(stride=STRIDE), [user("x" * 120) for _ in range(12)]
    size = len(messages[0])
    assert read(prefixes, body(*messages[:3])).prefix is None
    for n in range(4, 12):
        found = read(prefixes, body(*messages[:n]))
        assert found.prefix is not None
        known = 13 + (size + 1) * (n - 1) - 1  # bytes up to the end of the last message known before
        assert known - STRIDE - size <= found.spans[-1].stop <= known
        starts = [13 + (size + 1) * i for i in range(len(found.views))]
        assert found.spans == [slice(start, start + size) for start in starts]
        assert found.prefix.tokens == sum(view.tokens for view in found.views)


def test_what_follows_the_messages_names_nothing() -> None:
    """Tools after the messages come again behind other messages: an edge in them is never asked for."""
    prefixes = Prefixes(stride=STRIDE)
    tools = b',"tools":[' + msgspec.json.encode("x" * 4_000) + b"]"
    data = body(*[user(prose(80))] * 8, tail=tools)
    read(prefixes, data)
    assert len(prefixes._known) == data.index(b"]") // STRIDE


def test_another_beginning_is_not_found() -> None:
    prefixes = Prefixes(stride=STRIDE)
    read(prefixes, body(user("a" * 600), user("b" * 600)))
    assert prefixes.match(body(user("c" * 600), user("b" * 600))).prefix is None
    assert prefixes.match(b"x" * 100).digests == []


def test_a_prefix_is_its_owners_alone() -> None:
    prefixes, data = Prefixes(stride=STRIDE), body(user("a" * 600), user("b" * 600))
    messages = decode(data).messages
    prefixes.remember(prefixes.match(data, b"mine"), messages, Memo().views(messages))
    assert prefixes.match(data, b"mine").prefix is not None
    assert prefixes.match(data, b"yours").prefix is None
    assert prefixes.match(data).prefix is None


def bounded(capacity: int, most_bytes: int = 1) -> Prefixes:
    return Prefixes(Longest(capacity, Shelf(most_bytes)), STRIDE)


def reachable(prefixes: Prefixes) -> int:
    """Messages of which something is kept alive as it is, by a conversation or by what goes on from it."""
    return sum(len(prefix.views) for prefix in set(prefixes._known.values()))


def test_it_is_bounded() -> None:
    """By messages, however many conversations there are and however they grow."""
    prefixes = bounded(300)
    for topic in range(200):
        talk = [user(f"{topic} {i} {prose(90)}") for i in range(50)]
        for n in (1, 20, 35, 50):
            read(prefixes, body(*talk[:n]))
        assert reachable(prefixes) <= 300
    assert reachable(prefixes) > 200


def test_what_is_larger_than_all_the_room_is_not_kept() -> None:
    prefixes, large = bounded(10), body(*[user(f"{i} {prose(90)}") for i in range(50)])
    read(prefixes, large)
    assert reachable(prefixes) == 0
    assert prefixes.match(large).prefix is None


def test_what_is_in_use_outlives_what_is_not() -> None:
    prefixes, mine = bounded(100), body(*[user(prose(160))] * 6)
    read(prefixes, mine)
    for topic in range(200):
        read(prefixes, body(*[user(f"{topic} {prose(90)}")] * 6))
        assert prefixes.match(mine).prefix is not None
    assert prefixes.match(body(*[user(f"0 {prose(90)}")] * 6)).prefix is None


def test_what_was_not_used_lately_comes_from_the_shelf_as_it_was() -> None:
    prefixes = bounded(100, 1 << 20)
    talks = [[user(f"{topic} {i} {prose(90)}") for i in range(30)] for topic in range(30)]
    for talk in talks:
        read(prefixes, body(*talk))
    assert reachable(prefixes) <= 100
    for talk in talks:
        alone = bounded(100)
        read(alone, body(*talk))
        before, again = alone.match(body(*talk)), prefixes.match(body(*talk))
        assert before.prefix is not None
        assert again == msgspec.structs.replace(before, prefix=again.prefix)
        assert again.prefix is not None
        assert again.prefix.chain == before.prefix.chain
        assert [part.digest for part in again.prefix.parts()] == [part.digest for part in before.prefix.parts()]
    assert reachable(prefixes) <= 100


def test_a_conversation_whose_end_changed_is_found_on_the_shelf() -> None:
    """An agent may put a reminder of its own behind the newest message, and another one at the next step."""
    prefixes = bounded(50, 1 << 20)
    talk = [user(f"mine {i} {prose(90)}") for i in range(30)]
    read(prefixes, body(*talk, user("the time is 12:00 " + "x" * 300)))
    for topic in range(10):
        read(prefixes, body(*[user(f"{topic} {i} {prose(90)}") for i in range(30)]))
    found = prefixes.match(body(*talk, user("the time is 12:01 " + "x" * 300)))
    assert len(found.views) >= 28


def test_formats_share_a_shelf_but_no_conversation() -> None:
    """The same bytes may mean something else in another format."""
    longest, data = Longest(40, Shelf()), body(*[user(f"{i} {prose(90)}") for i in range(30)])
    chat, other = (Prefixes(longest, STRIDE, name) for name in (b"chat", b"messages"))
    for prefixes in (chat, other):
        read(prefixes, data)
        read(prefixes, body(*[user(f"other {i} {prose(90)}") for i in range(30)]))
    assert chat.match(data).digests != other.match(data).digests
    assert chat.match(data).prefix is not None
    assert reachable(chat) + reachable(other) <= 40


def test_what_leaves_is_packed_while_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packing takes long, and a request that is read on the event loop would wait for the lock. What is too long for a
    record is not packed at all."""
    longest, locked = Longest(100, Shelf()), list[bool]()

    def pack(chain: Sequence[Prefix]) -> bytes:
        locked.append(longest.lock.locked())
        return packed(chain)

    monkeypatch.setattr("trimtab.context.read.prefixes.packed", pack)
    monkeypatch.setattr("trimtab.context.read.shelf._MOST_MESSAGES", 50)
    prefixes = Prefixes(longest, STRIDE)
    for topic, messages in enumerate((90, 30, 90, 30, 30)):
        read(prefixes, body(*[user(f"{topic} {i} {prose(90)}") for i in range(messages)]))
    assert locked == [False]


def test_large_messages_take_no_more_room_than_small_ones() -> None:
    """An image of a megabyte spans 32 edges: what is kept is one prefix, not one for each edge."""
    prefixes = Prefixes(Longest(10), STRIDE)
    for topic in range(20):
        data = body(user(f"{topic} {prose(90)}"), user("x" * 100 * STRIDE), user("What is this?"))
        assert read(prefixes, data).prefix is None
        assert prefixes.match(data).prefix is not None
    assert len(prefixes._known) <= 10


def test_a_small_shelf_has_fewer_messages_beside_it() -> None:
    assert [messages_within(most_bytes) >> 10 for most_bytes in (128 << 20, 32 << 20, 1 << 20)] == [97, 32, 19]


def test_marks_are_found_in_what_is_known() -> None:
    marked = msgspec.json.encode({"role": "user", "content": "y" * 300, "pinned": True})
    prefixes = Prefixes(stride=STRIDE)
    read(prefixes, body(user("x" * 300), marked))
    data = body(user("x" * 300), marked, marked, user("z" * 300))
    read(prefixes, data)
    prefix = prefixes.match(data).prefix
    assert prefix is not None
    assert prefix.all_marked() == (1, 2)
    assert Raw(marked) == decode(data).messages[1]
