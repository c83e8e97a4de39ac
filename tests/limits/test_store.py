"""The in-process store, and keys."""

import pytest

from tests.support.clock import Clock
from trimtab.limits.store import MemoryStore, key_for

pytestmark = pytest.mark.anyio


async def test_a_value_is_there_for_its_time() -> None:
    clock = Clock()
    store = MemoryStore(clock)
    await store.set("k", b"v", 10.0)
    assert await store.get("k") == b"v"
    assert await store.get("other") is None
    clock.now += 10
    assert await store.get("k") is None


def test_keys_are_short_and_tell_pairs_apart() -> None:
    keys = {key_for(k, u, m) for k in ("factor", "learned") for u, m in [("a", "bc"), ("ab", "c"), ("a", "\ud800")]}
    assert len(keys) == 6
    assert len(key_for("factor", "u", "x" * 10**6)) < 60
