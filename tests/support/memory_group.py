"""A control group with a limit on memory, where this user may make one: `prefix` runs a command in it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

MOUNT = Path("/sys/fs/cgroup")


@contextmanager
def memory_group(limit: int) -> Iterator[tuple[str, ...]]:
    """The prefix of a command that then may use `limit` bytes. Skips the test where no group can be made."""
    version2 = (MOUNT / "cgroup.controllers").exists()
    parent, key = (MOUNT, "memory.max") if version2 else (MOUNT / "memory", "memory.limit_in_bytes")
    group = parent / f"trimtab-test-{os.getpid()}-{time.monotonic_ns()}"
    try:
        group.mkdir()
        (group / key).write_text(str(limit))
    except OSError as error:
        with suppress(OSError):
            group.rmdir()
        pytest.skip(f"no control group with a memory limit can be made here: {error}")
    try:
        yield ("sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh")
    finally:
        for _ in range(100):
            with suppress(OSError):
                group.rmdir()
                break
            time.sleep(0.05)
