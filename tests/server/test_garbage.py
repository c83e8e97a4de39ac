"""A full search for garbage waits until little is in flight."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.support.waiting import eventually
from trimtab.server.garbage import search, settle
from trimtab.server.load import Load


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    threshold = gc.get_threshold()
    yield
    gc.set_threshold(*threshold)
    gc.unfreeze()


def searched(objects: int) -> set[int]:
    """The generations that Python searches by itself while so many objects are made and held."""
    found: set[int] = set()

    def note(phase: str, info: dict[str, Any]) -> None:
        found.add(info["generation"])

    gc.callbacks.append(note)
    held = [[n] for n in range(objects)]
    gc.callbacks.remove(note)
    assert len(held) == objects
    return found


def test_a_large_request_begins_no_full_search() -> None:
    settle()
    assert 2 not in searched(500_000)


class Circle:
    def __init__(self) -> None:
        self.itself = self


@contextlib.asynccontextmanager
async def searching(load: Load) -> AsyncIterator[weakref.ref[Circle]]:
    gc.disable()
    task = asyncio.ensure_future(search(load, 0.005))
    yield weakref.ref(Circle())
    task.cancel()
    gc.enable()


@pytest.mark.anyio
async def test_what_holds_itself_is_found_while_little_is_in_flight() -> None:
    async with searching(Load(1, 1 << 30)) as circle:
        await eventually(lambda: circle() is None)


@pytest.mark.anyio
async def test_a_search_is_put_off_while_much_is_in_flight_but_not_for_ever() -> None:
    load = Load(1, 1 << 30)
    load.hold(2 << 20)
    async with searching(load) as circle:
        await asyncio.sleep(0.02)
        assert circle() is not None
        await eventually(lambda: circle() is None)
