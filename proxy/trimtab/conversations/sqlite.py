"""The embedded archive: one SQLite file, for one process or several on one machine.

All calls go through one thread with one connection. A change is one transaction, synced to disk before the call
returns (WAL, `synchronous = FULL`): it is there as a whole or not at all, also after a crash. Only the owner can read
the file, deleted bytes are overwritten, and what has run out is removed now and then by appends.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from trimtab.conversations.archive import Log
from trimtab.errors import StoreUnavailable

T = TypeVar("T")

BUSY_S = 2.0  # how long a call waits for another process that writes
SWEEP_S = 60.0  # seconds between two removals of what has run out
_LONG_ENOUGH: Final = 0.99  # share of its time that a log must have left to be read without being written to
SWEPT: Final = 500  # the most logs, and records, that one removal takes
SCHEMA: Final = """
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA secure_delete = ON;
CREATE TABLE IF NOT EXISTS logs (key TEXT PRIMARY KEY, version INTEGER NOT NULL, ends REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS entries (
    key TEXT NOT NULL, position INTEGER NOT NULL, value BLOB NOT NULL, PRIMARY KEY (key, position)
);
CREATE TABLE IF NOT EXISTS records (key TEXT PRIMARY KEY, value BLOB NOT NULL, ends REAL NOT NULL);
CREATE INDEX IF NOT EXISTS logs_end ON logs (ends);
CREATE INDEX IF NOT EXISTS records_end ON records (ends);
"""
_SET: Final = (
    "INSERT INTO records VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value, ends = excluded.ends"
)
_LOCK: Final = f"{_SET} WHERE records.ends <= ? OR records.value = excluded.value"
_LOG: Final = (
    "INSERT INTO logs VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET version = excluded.version, ends = excluded.ends"
)


class SqliteArchive:
    """An `Archive` in the file `path`, which is made where it is missing, and its directory too. Raises OSError when
    it cannot be made or is no database. `clock` gives seconds since 1970."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        self._clock, self._swept_at = clock, 0.0
        self._db = _opened(path)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="trimtab-conversations")

    async def read(self, key: str, after: int, keep_s: float) -> Log | None:
        """See `Archive.read`."""
        return await self._run(self._read, key, after, keep_s)

    async def append(self, key: str, entries: Sequence[bytes], expected: int, ttl_s: float) -> bool:
        """See `Archive.append`."""
        return await self._run(self._append, key, entries, expected, ttl_s)

    async def rewrite(self, key: str, at: int, entry: bytes, marker: bytes, expected: int, ttl_s: float) -> bool:
        """See `Archive.rewrite`."""
        return await self._run(self._append, key, (marker,), expected, ttl_s, (at, entry))

    async def remove(self, keys: Sequence[str]) -> int:
        """See `Archive.remove`."""
        return await self._run(self._remove, keys)

    async def get_many(self, keys: Sequence[str], keep_s: float) -> list[bytes | None]:
        """See `Archive.get_many`."""
        return await self._run(self._get_many, keys, keep_s)

    async def keep(self, keys: Sequence[str], keep_s: float) -> None:
        """See `Archive.keep`."""
        await self._run(self._keep, keys, keep_s)

    async def set_many(self, records: Mapping[str, bytes], ttl_s: float) -> None:
        """See `Archive.set_many`."""
        await self._run(self._set_many, records, ttl_s)

    async def lock(self, key: str, token: str, ttl_s: float) -> bool:
        """See `Archive.lock`."""
        return await self._run(self._lock, key, token, ttl_s)

    async def unlock(self, key: str, token: str) -> None:
        """See `Archive.unlock`."""
        await self._run(self._unlock, key, token)

    async def ping(self) -> bool:
        """See `Archive.ping`."""
        try:
            await self._run(lambda: self._db.execute("SELECT 1 FROM logs").fetchone())
        except StoreUnavailable:
            return False
        return True

    async def aclose(self) -> None:
        """Finish the calls under way and close the file."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._db.close)
        self._thread.shutdown()

    async def _run(self, work: Callable[..., T], *args: object) -> T:
        """One call in the thread; it goes on when its caller is cancelled."""

        def guarded() -> T:
            try:
                return work(*args)
            except sqlite3.Error as error:
                name = getattr(error, "sqlite_errorname", type(error).__name__)  # SQLITE_FULL, SQLITE_BUSY, ...
                raise StoreUnavailable(f"The store of conversations cannot be used now ({name}).") from error

        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._thread, guarded))

    # -- in the thread ---------------------------------------------------------------------------------------

    def _read(self, key: str, after: int, keep_s: float) -> Log | None:
        now = self._clock()
        with _Transaction(self._db, "DEFERRED"):  # which reads without waiting for who writes
            row = self._db.execute("SELECT version, ends FROM logs WHERE key = ? AND ends > ?", (key, now)).fetchone()
            if row is None:
                return None
            [first] = self._db.execute("SELECT value FROM entries WHERE key = ? AND position = 0", (key,)).fetchone()
            rows = self._db.execute(
                "SELECT value FROM entries WHERE key = ? AND position >= ? ORDER BY position", (key, after)
            )
            log = Log(row[0], first, [value for [value] in rows])
        if row[1] < now + keep_s * _LONG_ENOUGH:
            self._db.execute("UPDATE logs SET ends = ? WHERE key = ?", (now + keep_s, key))
        return log

    def _append(
        self, key: str, entries: Sequence[bytes], expected: int, ttl_s: float, replaced: tuple[int, bytes] | None = None
    ) -> bool:
        self._sweep()
        with _Transaction(self._db):
            if self._version(key) != expected:
                return False
            if not expected:  # what has run out may still be there
                self._db.execute("DELETE FROM entries WHERE key = ?", (key,))
            rows = [(key, position, entry) for position, entry in enumerate(entries, expected)]
            self._db.executemany("INSERT INTO entries VALUES (?, ?, ?)", rows)
            if replaced is not None:
                at, entry = replaced
                self._db.execute("UPDATE entries SET value = ? WHERE key = ? AND position = ?", (entry, key, at))
            self._db.execute(_LOG, (key, expected + len(entries), self._clock() + ttl_s))
            return True

    def _version(self, key: str) -> int:
        row = self._db.execute("SELECT version FROM logs WHERE key = ? AND ends > ?", (key, self._clock())).fetchone()
        return int(row[0]) if row else 0

    def _remove(self, keys: Sequence[str]) -> int:
        with _Transaction(self._db):
            removed = 0
            for key in keys:
                self._db.execute("DELETE FROM entries WHERE key = ?", (key,))
                for table in ("logs", "records"):
                    found = self._db.execute(f"DELETE FROM {table} WHERE key = ? AND ends > ?", (key, self._clock()))  # noqa: S608
                    removed += found.rowcount
            return removed

    def _get_many(self, keys: Sequence[str], keep_s: float) -> list[bytes | None]:
        with _Transaction(self._db):
            return [self._get(key, keep_s) for key in keys]

    def _get(self, key: str, keep_s: float) -> bytes | None:
        now = self._clock()
        row = self._db.execute(
            "UPDATE records SET ends = ? WHERE key = ? AND ends > ? RETURNING value", (now + keep_s, key, now)
        ).fetchone()
        return row[0] if row else None

    def _keep(self, keys: Sequence[str], keep_s: float) -> None:
        now = self._clock()
        with _Transaction(self._db):
            rows = [(now + keep_s, key, now) for key in keys]
            self._db.executemany("UPDATE records SET ends = ? WHERE key = ? AND ends > ?", rows)

    def _set_many(self, records: Mapping[str, bytes], ttl_s: float) -> None:
        ends = self._clock() + ttl_s
        with _Transaction(self._db):
            self._db.executemany(_SET, [(key, value, ends) for key, value in records.items()])

    def _lock(self, key: str, token: str, ttl_s: float) -> bool:
        now = self._clock()
        with _Transaction(self._db):
            return self._db.execute(_LOCK, (key, token.encode(), now + ttl_s, now)).rowcount == 1

    def _unlock(self, key: str, token: str) -> None:
        self._db.execute("DELETE FROM records WHERE key = ? AND value = ?", (key, token.encode()))

    def _sweep(self) -> None:
        """Remove some of what has run out."""
        now = self._clock()
        if now - self._swept_at < SWEEP_S:
            return
        self._swept_at = now
        with _Transaction(self._db):
            old = self._db.execute("SELECT key FROM logs WHERE ends <= ? LIMIT ?", (now, SWEPT)).fetchall()
            self._db.executemany("DELETE FROM entries WHERE key = ?", old)
            self._db.executemany("DELETE FROM logs WHERE key = ?", old)
            old = self._db.execute("SELECT key FROM records WHERE ends <= ? LIMIT ?", (now, SWEPT)).fetchall()
            self._db.executemany("DELETE FROM records WHERE key = ?", old)
        self._db.execute("PRAGMA incremental_vacuum(1000)").fetchall()


class _Transaction:
    """A block of changes that is kept as a whole, or not at all when it raises; or of reads that see one state."""

    def __init__(self, db: sqlite3.Connection, kind: str = "IMMEDIATE") -> None:
        self._db, self._kind = db, kind

    def __enter__(self) -> None:
        self._db.execute(f"BEGIN {self._kind}")

    def __exit__(self, kind: object, *_: object) -> None:
        self._db.execute("COMMIT" if kind is None else "ROLLBACK")


def _opened(path: Path) -> sqlite3.Connection:
    try:
        db = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        db.executescript(SCHEMA)
    except sqlite3.Error as error:
        raise OSError(str(error)) from error
    return db
