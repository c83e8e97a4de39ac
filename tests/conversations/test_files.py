"""Files that are kept, in both kinds of archive: found by their tenant alone, within bounds, for their time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from trimtab.conversations.archive import Archive
from trimtab.conversations.files import IS_OURS, PIECE, File, Files
from trimtab.conversations.settings import ConversationsSettings, open_archive
from trimtab.conversations.uploads import Upload
from trimtab.errors import BodyTooLarge, Conflict
from trimtab.store.keys import file_key, lock_key
from trimtab.store.sealed import Keyring, Tenant
from trimtab.store.settings import RedisSettings

pytestmark = pytest.mark.anyio

MB = 1 << 20
ONE, TWO = Keyring().tenant(b"one"), Keyring().tenant(b"two")


@pytest.fixture(params=("sqlite", "redis"))
async def archive(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Archive]:
    if request.param == "sqlite":
        opened = open_archive(ConversationsSettings(store=f"sqlite:///{tmp_path}/c.db"), None)
    else:
        url = f"redis://{request.getfixturevalue('valkey').address}/0"
        opened = open_archive(ConversationsSettings(store="redis"), RedisSettings(url=url, timeout_ms=5_000))
    yield opened
    await opened.aclose()


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def files(archive: Archive, clock: Clock | None = None, **settings: int) -> Files:
    return Files(archive, msgspec.structs.replace(ConversationsSettings(), **settings), clock or Clock())


def upload(data: bytes = b"abc", name: str = "a.txt", lasts_s: int | None = None) -> Upload:
    return Upload(name, "text/plain", "user_data", data, lasts_s)


async def names(of: Files, tenant: Tenant = ONE) -> list[str]:
    return [file.name for file in await of.listed(tenant)]


@pytest.mark.parametrize("size", [0, 3, PIECE, 2 * PIECE + 5])
async def test_what_was_added_is_found_whole(archive: Archive, size: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    made = await files(archive).add(ONE, upload(data[:size]))
    again = files(archive)  # another replica
    assert IS_OURS.fullmatch(made.id)
    assert (made.size, made.created_at, made.expires_at) == (size, 1_000_000, None)
    assert await again.find(ONE, [made.id, "file-openais", "x"]) == {made.id: made}
    assert await again.content(ONE, made) == data[:size]


async def test_another_tenant_finds_nothing(archive: Archive) -> None:
    of = files(archive)
    made = await of.add(ONE, upload())
    assert await of.find(TWO, [made.id]) == {}
    assert await of.content(TWO, made) is None
    assert await of.listed(TWO) == []
    await of.remove(TWO, made)
    assert await of.content(ONE, made) == b"abc"


async def test_files_are_listed_in_their_order_until_they_are_deleted(archive: Archive) -> None:
    of = files(archive)
    made = [await of.add(ONE, upload(name=name)) for name in "abc"]
    assert await names(of) == ["a", "b", "c"]
    await of.remove(ONE, made[1])
    assert await names(of) == ["a", "c"]
    assert await of.content(ONE, made[1]) is None


async def test_files_that_are_added_at_once_are_all_listed(archive: Archive) -> None:
    replicas = [files(archive), files(archive)]
    await asyncio.gather(*(replicas[n % 2].add(ONE, upload(name=str(n))) for n in range(12)))
    assert sorted(map(int, await names(replicas[0]))) == list(range(12))


async def test_a_list_that_stays_locked_is_a_conflict(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trimtab.conversations.files._TRIES", 3)
    of = files(archive)
    key = lock_key(file_key(ONE.id, ""))
    await archive.lock(key, "another", 60)
    with pytest.raises(Conflict):
        await of.add(ONE, upload())
    await archive.unlock(key, "another")
    await of.add(ONE, upload())


async def test_a_file_and_all_of_a_tenant_are_bounded(archive: Archive) -> None:
    of = files(archive, max_file_mb=2, max_files_mb=3)
    with pytest.raises(BodyTooLarge, match="max_file_mb"):
        await of.add(ONE, upload(bytes(2 * MB + 1)))
    first = await of.add(ONE, upload(bytes(2 * MB)))
    with pytest.raises(BodyTooLarge, match="max_files_mb"):
        await of.add(ONE, upload(bytes(2 * MB)))
    await of.add(TWO, upload(bytes(2 * MB)))
    await of.remove(ONE, first)
    await of.add(ONE, upload(bytes(2 * MB)))


async def test_a_file_ends_when_its_client_said(archive: Archive) -> None:
    clock = Clock()
    of = files(archive, clock, max_files_mb=1)
    made = await of.add(ONE, upload(bytes(MB), lasts_s=3_600))
    assert made.expires_at == 1_003_600
    clock.now += 3_600
    assert (await of.find(ONE, [made.id]), await of.listed(ONE)) == ({}, [])
    await of.add(ONE, upload(bytes(MB)))  # it takes no room any more


async def test_a_file_with_a_part_missing_has_no_content(archive: Archive) -> None:
    of = files(archive)
    made = await of.add(ONE, upload(bytes(PIECE + 1)))
    await archive.remove([file_key(ONE.id, made.id, 1)])
    assert await of.content(ONE, made) is None


async def test_what_is_kept_is_sealed(archive: Archive, tmp_path: Path) -> None:
    made = await files(archive).add(ONE, upload(b"the launch is on friday", "secret-name.txt"))
    [value] = await archive.get_many([file_key(ONE.id, made.id)], 60)
    [piece] = await archive.get_many([file_key(ONE.id, made.id, 0)], 60)
    assert value
    assert piece
    stored = value + piece + on_disk(tmp_path)
    assert not [word for word in (b"friday", b"secret-name", made.id.encode()) if word in stored]


def on_disk(folder: Path) -> bytes:
    return b"".join([each.read_bytes() for each in sorted(folder.glob("c.db*"))])


def test_a_file_has_a_name_for_everything_that_is_shown() -> None:
    assert File("file-1", "a", "text/plain", "vision", 3, 1).expires_at is None
