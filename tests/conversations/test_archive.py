"""The contract of an archive, against every implementation and every kind of server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.waiting import eventually
from trimtab.conversations.archive import Archive, Log
from trimtab.conversations.settings import ConversationsSettings, open_archive
from trimtab.store.settings import RedisSettings

pytestmark = pytest.mark.anyio


@pytest.fixture(params=("sqlite", "standalone", "cluster", "sentinel"))
async def archive(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Archive]:
    match request.param:
        case "sqlite":
            opened = open_archive(ConversationsSettings(store=f"sqlite:///{tmp_path}/c.db"), None)
        case "standalone":
            opened = in_redis(f"redis://{request.getfixturevalue('valkey').address}/0")
        case "cluster":
            opened = in_redis(request.getfixturevalue("cluster").url)
        case _:
            opened = in_redis(request.getfixturevalue("watched").url)
    assert await opened.ping()
    yield opened
    await opened.aclose()


def in_redis(url: str) -> Archive:
    return open_archive(ConversationsSettings(store="redis"), RedisSettings(url=url))


async def test_a_log_that_was_never_made_is_not_there(archive: Archive) -> None:
    assert await archive.read("log", 0, 60) is None


async def test_what_was_appended_is_read_in_its_order(archive: Archive) -> None:
    assert await archive.append("log", [b"one", b"\x00two\xff"], 0, 60)
    assert await archive.append("log", [b"three"], 2, 60)
    assert await archive.read("log", 0, 60) == Log(3, b"one", [b"one", b"\x00two\xff", b"three"])


async def test_only_what_is_new_is_read(archive: Archive) -> None:
    await archive.append("log", [b"one", b"two"], 0, 60)
    assert await archive.read("log", 1, 60) == Log(2, b"one", [b"two"])
    assert await archive.read("log", 2, 60) == Log(2, b"one", [])


async def test_an_append_to_another_version_changes_nothing(archive: Archive) -> None:
    await archive.append("log", [b"one", b"two"], 0, 60)
    for expected in (0, 1, 3):
        assert not await archive.append("log", [b"x"], expected, 60)
    assert await archive.read("log", 0, 60) == Log(2, b"one", [b"one", b"two"])


async def test_of_fifty_appends_at_once_one_is_kept(archive: Archive) -> None:
    kept = await asyncio.gather(*(archive.append("log", [b"%d" % n, b"%d" % n], 0, 60) for n in range(50)))
    assert sum(kept) == 1
    log = await archive.read("log", 0, 60)
    assert log is not None
    assert log.version == 2
    assert log.entries[0] == log.entries[1]


async def test_a_rewrite_replaces_an_entry_and_makes_a_new_version(archive: Archive) -> None:
    await archive.append("log", [b"one", b"two"], 0, 60)
    assert await archive.rewrite("log", 0, b"ONE", b"marker", 2, 60)
    assert await archive.read("log", 0, 60) == Log(3, b"ONE", [b"ONE", b"two", b"marker"])
    assert not await archive.rewrite("log", 0, b"x", b"marker", 2, 60)


async def test_a_log_ends_with_its_time_unless_it_is_read(archive: Archive) -> None:
    await archive.append("ends", [b"one"], 0, 0.2)
    await archive.append("read", [b"one"], 0, 0.2)
    assert await archive.read("read", 0, 60)
    await asyncio.sleep(0.25)
    assert await archive.read("ends", 0, 60) is None
    assert await archive.read("read", 0, 60)
    assert await archive.append("ends", [b"again"], 0, 60)
    assert await archive.read("ends", 0, 60) == Log(1, b"again", [b"again"])


async def test_what_is_removed_is_gone(archive: Archive) -> None:
    await archive.append("log", [b"one"], 0, 60)
    await archive.set_many({"record": b"value"}, 60)
    assert await archive.remove(["log", "record", "other"]) == 2
    assert await archive.read("log", 0, 60) is None
    assert await archive.get_many(["record"], 60) == [None]


async def test_records_are_read_in_the_order_of_their_keys(archive: Archive) -> None:
    await archive.set_many({f"k{n}": b"%d" % n for n in range(0, 40, 2)}, 60)
    values = await archive.get_many([f"k{n}" for n in range(40)], 60)
    assert values == [None if n % 2 else b"%d" % n for n in range(40)]
    assert await archive.get_many([], 60) == []


async def test_a_record_ends_with_its_time_unless_it_is_read(archive: Archive) -> None:
    await archive.set_many({"ends": b"v", "read": b"v"}, 0.2)
    assert await archive.get_many(["read"], 60) == [b"v"]
    await asyncio.sleep(0.25)
    assert await archive.get_many(["ends", "read"], 60) == [None, b"v"]


async def test_a_record_can_be_kept_without_being_read(archive: Archive) -> None:
    await archive.set_many({"ends": b"v", "kept": b"v"}, 0.2)
    await archive.keep(["kept", "never there"], 60)
    await asyncio.sleep(0.25)
    assert await archive.get_many(["ends", "kept", "never there"], 60) == [None, b"v", None]


async def test_a_lock_has_one_holder_until_it_is_freed(archive: Archive) -> None:
    taken = await asyncio.gather(*(archive.lock("lock", f"caller {n}", 60) for n in range(20)))
    assert sum(taken) == 1
    holder = f"caller {taken.index(True)}"
    assert await archive.lock("lock", holder, 60)
    await archive.unlock("lock", "another")
    assert not await archive.lock("lock", "another", 60)
    await archive.unlock("lock", holder)
    assert await archive.lock("lock", "another", 60)


async def test_a_lock_of_a_crashed_holder_ends_by_itself(archive: Archive) -> None:
    assert await archive.lock("lock", "mine", 0.05)
    await eventually(lambda: archive.lock("lock", "yours", 60))
