"""How much memory this process may use, and how many bytes that allows of request bodies in flight, and of what is
remembered of conversations.

The limit is the smallest of the control groups the process is in (`memory.max` of version 2, `memory.limit_in_bytes` of
version 1) and of the machine's own memory. A body in flight takes about four times its size: as received, joined, as
edited messages, and as sent. So an eighth of the limit may be bodies, and half of it stays for everything else.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from trimtab.context.read.shelf import MOST_BYTES

_SHARE = 8  # 1/8: four times that is half of the limit
_MOST = 512 << 20  # bytes; more in flight than one worker can work off
_LEAST = 8 << 20  # bytes
_REMEMBERED_SHARE = 16  # 1/16: 16 MiB of 256, as much as 200 conversations of 200,000 tokens


def bodies_within(limit: int) -> int:
    """The bytes of bodies that may be in flight in a process that may use `limit` bytes of memory."""
    return max(_LEAST, min(_MOST, limit // _SHARE))


def remembered_within(limit: int) -> int:
    """The bytes that may be remembered of conversations not used lately (`context.read.shelf`), in such a process."""
    return min(MOST_BYTES, limit // _REMEMBERED_SHARE)


def memory_limit(root: Path = Path("/")) -> int:
    """The bytes of memory this process may use. `root` is where /proc and /sys are found."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min((total, *_of_groups(root)))


def _of_groups(root: Path) -> Iterator[int]:
    """The limits of the process's control groups and of the groups around them, in bytes."""
    for file in _limit_files(root):
        try:
            text = file.read_text().strip()
        except OSError:
            continue
        if text.isdigit():  # `max` is version 2's word for no limit
            yield int(text)


def _limit_files(root: Path) -> Iterator[Path]:
    """Where the limits may stand. A container sees its own group as the root of the file system, even where
    /proc/self/cgroup has the path on the host."""
    mounts = root / "sys" / "fs" / "cgroup"
    for line in _lines(root / "proc" / "self" / "cgroup"):
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        own = PurePosixPath(path.lstrip("/"))
        for group in (own, *own.parents):
            if number == "0":
                yield from (mounts / group / "memory.max", mounts / "unified" / group / "memory.max")
            elif "memory" in controllers.split(","):
                yield mounts / "memory" / group / "memory.limit_in_bytes"


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except OSError:
        return []
