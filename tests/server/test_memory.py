"""How much memory a process may use, by what its control groups say, and what of it may be bodies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trimtab.server.memory import bodies_within, memory_limit, remembered_within

MIB = 1 << 20
TOTAL = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
LIMIT = 256 * MIB
FILES = [
    ("0::/\n", {"memory.max": str(LIMIT)}, LIMIT),  # a container with version 2 and a namespace of its own
    ("0::/pod/box\n", {"pod/box/memory.max": "max", "pod/memory.max": str(LIMIT)}, LIMIT),  # the group around it counts
    ("0::/a\n", {"unified/a/memory.max": str(LIMIT)}, LIMIT),  # both versions side by side
    ("5:cpu:/\n4:memory:/docker/1\n0::/\n", {"memory/docker/1/memory.limit_in_bytes": str(LIMIT)}, LIMIT),
    ("4:memory:/docker/1\n", {"memory/memory.limit_in_bytes": str(LIMIT)}, LIMIT),  # the host's path, not visible here
    ("4:memory:/\n", {"memory/memory.limit_in_bytes": "9223372036854771712"}, TOTAL),  # version 1's word for no limit
    ("0::/\n", {"memory.max": "max"}, TOTAL),
    ("0::/\n", {}, TOTAL),
    ("", {}, TOTAL),
]


@pytest.mark.parametrize(("groups", "files", "limit"), FILES)
def test_the_tightest_limit_counts(tmp_path: Path, groups: str, files: dict[str, str], limit: int) -> None:
    own = tmp_path / "proc" / "self" / "cgroup"
    own.parent.mkdir(parents=True)
    own.write_text(groups)
    for name, text in files.items():
        path = tmp_path / "sys" / "fs" / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    assert memory_limit(tmp_path) == limit


def test_without_proc_it_is_the_machines_memory(tmp_path: Path) -> None:
    assert memory_limit(tmp_path) == TOTAL


@pytest.mark.parametrize(("limit", "bodies"), [(32, 8), (256, 32), (512, 64), (1024, 128), (64 * 1024, 512)])
def test_an_eighth_of_it_may_be_bodies(limit: int, bodies: int) -> None:
    assert bodies_within(limit * MIB) == bodies * MIB


@pytest.mark.parametrize(("limit", "remembered"), [(256 * MIB, 16 * MIB), (1 << 30, 64 * MIB), (1 << 40, 128 * MIB)])
def test_what_is_remembered_of_conversations_follows_the_limit(limit: int, remembered: int) -> None:
    assert remembered_within(limit) == remembered
