"""The names of a chain, and finding the newest summary that is stored."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.summaries.models import conversation, want
from trimtab.store.memory import MemoryStore
from trimtab.store.sealed import Keyring
from trimtab.summaries.chain import Chain, Found, Writer
from trimtab.summaries.prompts import Prompts

pytestmark = pytest.mark.anyio

MESSAGES = conversation(210)


class Counting(MemoryStore):
    """Counts the names it was asked for, per round trip."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int] = []

    async def get_many(self, keys: Sequence[str], keep_s: float | None = None) -> list[bytes | None]:
        self.asked.append(len(keys))
        return await super().get_many(keys, keep_s)


def chain(segments: int, *, model: str = "m", prompt: str = "p", max_tokens: int = 400) -> Chain:
    wanted = want(MESSAGES, segments, max_tokens=max_tokens)
    return Chain(wanted, MESSAGES, Writer(model), Keyring("s").tenant(b"k"), Prompts({"general": prompt})["general"])


def test_every_link_has_its_own_name_in_every_setting() -> None:
    chains = [chain(3), chain(3, model="n"), chain(3, prompt="q"), chain(3, max_tokens=500)]
    assert len({one.key(upto) for one in chains for upto in (1, 2, 3)}) == 12


def test_a_longer_wish_names_the_shorter_summaries_the_same() -> None:
    assert [chain(5).key(n) for n in (1, 2, 3)] == [chain(3).key(n) for n in (1, 2, 3)]


async def test_what_is_kept_is_found_by_longer_wishes_and_not_by_shorter() -> None:
    store = MemoryStore()
    await chain(3).keep(store, Found(3, "text"), 60)
    assert await chain(9).newest(store, 60) == Found(3, "text")
    assert await chain(9).newest(store, 60, above=3) is None
    assert await chain(2).newest(store, 60) is None


@pytest.mark.parametrize(("at", "asked"), [(100, [1]), (99, [1, 8]), (60, [1, 8, 32]), (0, [1, 8, 32, 32, 27])])
async def test_the_search_goes_back_from_the_newest_in_growing_strides(at: int, asked: list[int]) -> None:
    store = Counting()
    if at:
        await chain(100).keep(store, Found(at, "text"), 60)
    found = await chain(100).newest(store, 60)
    assert (found.upto if found else 0, store.asked) == (at, asked)


async def test_a_newer_one_that_does_not_open_is_passed_over() -> None:
    store, wish = MemoryStore(), chain(5)
    await wish.keep(store, Found(3, "text"), 60)
    await store.set(wish.key(4), b"garbage", 60)
    assert await wish.newest(store, 60) == Found(3, "text")


def test_nothing_of_the_conversation_shows() -> None:
    shown = repr([Found(1, "secret"), Writer("m", b"Bearer sk-secret"), chain(1).segment(0)])
    assert "secret" not in shown
    assert "FACT" not in shown
