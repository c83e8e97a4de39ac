"""What is particular to the embedded archive: its file, its processes, and what a crash leaves."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.clock import Clock
from trimtab.conversations.archive import Log
from trimtab.conversations.sqlite import SWEEP_S, SqliteArchive
from trimtab.errors import StoreUnavailable

pytestmark = pytest.mark.anyio

# Appends turns of two entries, one after the other, and prints each version once it is stored.
WRITER = """
import asyncio, sys
from pathlib import Path
from trimtab.conversations.sqlite import SqliteArchive

async def main():
    archive, version = SqliteArchive(Path(sys.argv[1])), 0
    while True:
        assert await archive.append("log", [b"question %d" % version, b"answer %d" % version], version, 3600)
        version += 2
        print(version, flush=True)

asyncio.run(main())
"""


async def test_the_file_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    archive = SqliteArchive(tmp_path / "deep" / "c.db")
    await archive.append("log", [b"one"], 0, 60)
    assert (tmp_path / "deep" / "c.db").stat().st_mode & 0o077 == 0
    await archive.aclose()


async def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "c.db").write_text("something else, and long enough to be taken for a header of a database file" * 9)
    with pytest.raises(OSError, match="not a database"):
        SqliteArchive(tmp_path / "c.db")


async def test_two_processes_of_one_machine_see_the_same(tmp_path: Path) -> None:
    one, other = SqliteArchive(tmp_path / "c.db"), SqliteArchive(tmp_path / "c.db")
    assert await one.append("log", [b"one"], 0, 60)
    assert await other.append("log", [b"two"], 1, 60)
    assert await one.read("log", 0, 60) == Log(2, b"one", [b"one", b"two"])
    await one.aclose()
    await other.aclose()


def killed_after(turns: int, path: Path) -> int:
    """Append in a process that is killed after so many turns; returns the last version that it had stored."""
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        printed = [int(writer.stdout.readline()) for _ in range(turns)]
        writer.send_signal(signal.SIGKILL)
        printed += [int(line) for line in writer.stdout if line.endswith("\n")]
    return printed[-1]


async def test_a_process_that_is_killed_leaves_whole_turns(tmp_path: Path) -> None:
    for turns in (1, 7, 20):
        stored = killed_after(turns, tmp_path / f"{turns}.db")
        archive = SqliteArchive(tmp_path / f"{turns}.db")
        log = await archive.read("log", 0, 60)
        assert log is not None
        assert log.version % 2 == 0
        assert log.version >= stored
        assert len(log.entries) == log.version
        await archive.aclose()


async def test_what_has_run_out_is_removed_from_the_file(tmp_path: Path) -> None:
    clock = Clock()
    archive = SqliteArchive(tmp_path / "c.db", clock)
    await archive.append("old", [b"the words of a conversation"], 0, 60)
    await archive.set_many({"old": b"an image of a conversation"}, 60)
    clock.now += 61 + SWEEP_S
    await archive.append("new", [b"one"], 0, 60)
    await archive.aclose()
    assert b"of a conversation" not in (tmp_path / "c.db").read_bytes()


async def test_a_file_that_another_process_holds_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trimtab.conversations.sqlite.BUSY_S", 0.05)
    one, other = SqliteArchive(tmp_path / "c.db"), SqliteArchive(tmp_path / "c.db")
    one._db.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="SQLITE_BUSY"):
        await other.append("log", [b"one"], 0, 60)
    one._db.execute("ROLLBACK")
    assert await other.append("log", [b"one"], 0, 60)
    await asyncio.gather(one.aclose(), other.aclose())
