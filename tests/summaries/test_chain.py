"""The keys of a chain, and finding the newest summary that is stored."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from tests.support.summary_models import conversation, want
from trimtab.store.memory import MemoryStore
from trimtab.store.sealed import Keyring
from trimtab.summaries.chain import Chain, Spent, Summary, Writer
from trimtab.summaries.prompts import make_prompt

pytestmark = pytest.mark.anyio

MESSAGES = conversation(210)


class Counting(MemoryStore):
    """Counts the keys it was asked for, per round trip."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int] = []

    async def get_many(self, keys: Sequence[str], keep_s: float | None = None) -> list[bytes | None]:
        self.asked.append(len(keys))
        return await super().get_many(keys, keep_s)


def chain(segments: int, *, model: str = "m", prompt: str = "p", max_tokens: int = 400) -> Chain:
    wanted = want(MESSAGES, segments, max_tokens=max_tokens)
    return Chain(wanted, MESSAGES, Writer(model), Keyring("s").tenant(b"k"), make_prompt("general", prompt))


def test_every_summary_of_every_setting_has_its_own_key() -> None:
    chains = [chain(3), chain(3, model="n"), chain(3, prompt="q"), chain(3, max_tokens=500)]
    assert len({one.key(segments) for one in chains for segments in (1, 2, 3)}) == 12


def test_a_longer_chain_has_the_keys_of_the_shorter_ones() -> None:
    assert [chain(5).key(n) for n in (1, 2, 3)] == [chain(3).key(n) for n in (1, 2, 3)]


async def test_a_stored_summary_is_found_by_longer_chains_and_not_by_shorter_ones() -> None:
    store = MemoryStore()
    await chain(3).save(store, Summary(3, "text"), 60)
    assert await chain(9).newest(store, 60) == Summary(3, "text")
    assert await chain(9).newest(store, 60, above=3) is None
    assert await chain(2).newest(store, 60) is None


@pytest.mark.parametrize(("at", "asked"), [(100, [1]), (99, [1, 8]), (60, [1, 8, 32]), (0, [1, 8, 32, 32, 27])])
async def test_the_search_goes_back_from_the_newest_in_growing_strides(at: int, asked: list[int]) -> None:
    store = Counting()
    if at:
        await chain(100).save(store, Summary(at, "text"), 60)
    found = await chain(100).newest(store, 60)
    assert (found.segments if found else 0, store.asked) == (at, asked)


async def test_a_newer_one_that_does_not_open_is_passed_over() -> None:
    store, longer = MemoryStore(), chain(5)
    await longer.save(store, Summary(3, "text"), 60)
    await store.set(longer.key(4), b"garbage", 60)
    assert await longer.newest(store, 60) == Summary(3, "text")


def test_nothing_of_the_conversation_shows() -> None:
    shown = repr([Summary(1, "secret"), Writer("m", b"Bearer sk-secret"), chain(1).segment(0)])
    assert "secret" not in shown
    assert "FACT" not in shown


async def test_what_a_summary_cost_is_stored_with_it_and_an_older_one_has_no_cost() -> None:
    store = MemoryStore()
    paid = Summary(3, "text", Spent(2, 900, 60))
    await chain(3).save(store, paid, 60)
    assert await chain(3).newest(store, 60) == paid
    key = chain(2).key(2)
    await store.set(key, chain(2).tenant.seal(key, msgspec.msgpack.encode(["older"])), 60)
    assert await chain(2).newest(store, 60) == Summary(2, "older")
