"""Histories in a real archive: what is loaded is what was appended, on every replica; nothing stale is remembered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from trimtab.conversations.archive import Archive
from trimtab.conversations.entries import Entry, Header, Held, Record
from trimtab.conversations.histories import Done, Histories, History
from trimtab.conversations.settings import ConversationsSettings
from trimtab.conversations.sqlite import SqliteArchive
from trimtab.errors import NotStored
from trimtab.store.sealed import Keyring

pytestmark = pytest.mark.anyio

ONE, OTHER = Keyring().tenant(b"Bearer one"), Keyring().tenant(b"Bearer other")
HEADER = Header("responses", 1)
IMAGE = b'{"image_url":"data:image/png;base64,%b"}' % (b"iVBORw0KGgo" * 3000)


@pytest.fixture
async def archive(tmp_path: Path) -> AsyncIterator[Archive]:
    opened = SqliteArchive(tmp_path / "c.db")
    yield opened
    await opened.aclose()


def replica(archive: Archive, **settings: int) -> Histories:
    return Histories(archive, ConversationsSettings(**settings))  # type: ignore[arg-type]


def items(*texts: str) -> list[Held]:
    return [Held(text, b'"%b"' % text.encode(), text.startswith("a")) for text in texts]


async def appended(histories: Histories, *turns: list[Held], name: str = "c:x") -> History:
    history: History | None = History(name, HEADER)
    for turn in turns:
        assert history is not None
        history = await histories.append(ONE, history, turn)
    assert history is not None
    return history


async def test_turns_are_loaded_in_their_order_on_any_replica(archive: Archive) -> None:
    one, other = replica(archive), replica(archive)
    written = await appended(one, items("u1", "a1"), items("u2", "a2"))
    for histories in (one, other):
        history = await histories.load(ONE, "c:x")
        assert history is not None
        assert history.items == items("u1", "a1", "u2", "a2")
        assert (history.version, history.ends) == (3, [0, 2, 4]) == (written.version, written.ends)
        assert history.turn(2) == items("u1", "a1")
        assert history.until(2) == items("u1", "a1")
    await one.append(ONE, written, items("u3"))
    assert [h.raw for h in (await other.load(ONE, "c:x")).items][-1:] == [b'"u3"']  # type: ignore[union-attr]


async def test_another_tenant_has_none_of_it(archive: Archive) -> None:
    await appended(replica(archive), items("u1"))
    assert await replica(archive).load(OTHER, "c:x") is None


async def test_an_append_to_an_older_version_stores_nothing(archive: Archive) -> None:
    histories, seen = replica(archive), list[Done]()
    histories.report = lambda done, size, seconds: seen.append(done)
    first = await appended(histories, items("u1"))
    assert await histories.append(ONE, first, items("u2")) is not None
    assert await replica(archive).append(ONE, first, items("x")) is None
    assert await histories.append(ONE, first, items("x")) is None
    assert [h.id for h in (await histories.load(ONE, "c:x")).items] == ["u1", "u2"]  # type: ignore[union-attr]
    assert seen == ["append", "append", "conflict", "load"]


async def test_one_that_was_deleted_and_made_again_is_not_mixed_with_the_old_one(archive: Archive) -> None:
    one, other = replica(archive), replica(archive)
    await appended(one, items("old 1"), items("old 2"))
    assert await other.load(ONE, "c:x")
    assert await one.remove(ONE, "c:x")
    assert await other.load(ONE, "c:x") is None
    assert not await one.remove(ONE, "c:x")
    await appended(one, items("old 1"))
    await other.load(ONE, "c:x")
    await one.remove(ONE, "c:x")
    await appended(one, items("new 1"), items("new 2"), items("new 3"))
    found = await other.load(ONE, "c:x")
    assert found is not None
    assert found.items == items("new 1", "new 2", "new 3")


async def test_what_was_replaced_is_read_again(archive: Archive) -> None:
    one, other = replica(archive), replica(archive)
    history = await appended(one, items("u1", "a1"), items("u2"))
    assert await other.load(ONE, "c:x")
    assert await one.replace(ONE, history, 1, one.entry_of(items("a1")))
    for histories in (one, other):
        found = await histories.load(ONE, "c:x")
        assert found is not None
        assert found.items == items("a1", "u2")
        assert found.version == 4
    assert not await one.replace(ONE, history, 1, Entry())


async def test_a_log_continues_its_parent_up_to_a_version(archive: Archive) -> None:
    histories = replica(archive)
    await appended(histories, items("u1", "a1"), items("u2", "a2"))
    for name, parent, at in (("r:fork", "c:x", 2), ("r:deeper", "r:fork", 2)):
        header = Header("responses", 1, parent=parent, at=at)
        assert await histories.make(ONE, name, header, items(f"in {name}"))
    for reader in (histories, replica(archive)):
        found = await reader.load(ONE, "r:deeper")
        assert found is not None
        assert found.items == items("u1", "a1", "in r:fork", "in r:deeper")
        assert found.turn(2) == items("in r:deeper")
        assert await reader.append(ONE, found, items("x")) is not None
        assert [h.id for h in (await reader.load(ONE, "r:deeper")).items][-1] == "x"  # type: ignore[union-attr]
        await reader.replace(ONE, (await reader.load(ONE, "r:deeper")), 2, Entry())  # type: ignore[arg-type]
    await histories.remove(ONE, "c:x")
    with pytest.raises(NotStored, match="no longer stored"):
        await histories.load(ONE, "r:deeper")


async def test_an_image_is_stored_once_and_deleted_with_its_log(archive: Archive) -> None:
    histories, big = replica(archive), [Held("i", IMAGE)]
    await appended(histories, *([big] * 20))
    [size] = archive._db.execute("SELECT sum(length(value)) FROM entries").fetchone()  # type: ignore[attr-defined]
    assert size < len(IMAGE) / 4
    found = await replica(archive).load(ONE, "c:x")
    assert found is not None
    assert found.items == big * 20
    keys = [row[0] for row in archive._db.execute("SELECT key FROM records")]  # type: ignore[attr-defined]
    assert len(keys) == 1
    await histories.remove(ONE, "c:x")
    assert await archive.get_many(keys, 60) == [None]


async def test_an_image_that_is_gone_is_a_clear_error(archive: Archive) -> None:
    await appended(replica(archive), [Held("i", IMAGE)])
    keys = [row[0] for row in archive._db.execute("SELECT key FROM records")]  # type: ignore[attr-defined]
    await archive.remove(keys)
    with pytest.raises(NotStored):
        await replica(archive).load(ONE, "c:x")


async def test_what_is_remembered_is_bounded(archive: Archive) -> None:
    histories = replica(archive, memory_mb=1)
    for n in range(8):
        await appended(histories, [Held("i", b'"%b"' % (b"x" * 300_000))], name=f"c:{n}")
    assert len(histories._known) <= 3
    assert await histories.load(ONE, "c:0")


async def test_a_response_is_found_until_it_is_forgotten(archive: Archive) -> None:
    histories, record = replica(archive), Record("r:1", 2, b"{}")
    await histories.remember(ONE, {"resp_1": record, "msg_1": record})
    assert await replica(archive).find(ONE, ["msg_1", "none", "resp_1"]) == {"msg_1": record, "resp_1": record}
    assert await histories.find(OTHER, ["resp_1"]) == {}
    assert await histories.forget(ONE, "resp_1")
    assert not await histories.forget(ONE, "resp_1")
    assert await histories.find(ONE, ["resp_1"]) == {}


async def test_a_large_log_is_opened_beside_the_event_loop(archive: Archive) -> None:
    turns = [[Held("i", b'"%b"' % (b"x" * 200_000))] for _ in range(8)]
    await appended(replica(archive), *turns)
    ticks = 0

    async def count() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.0005)
            ticks += 1

    counting = asyncio.create_task(count())
    found = await replica(archive).load(ONE, "c:x")
    counting.cancel()
    assert found is not None
    assert len(found.items) == 8
    assert ticks
