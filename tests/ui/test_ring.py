"""The ring: what is kept of exchanges, how much of it, and who is woken when one is added."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.planned import planned_notes
from trimtab.exchange.notes import Notes
from trimtab.telemetry import SummaryRun
from trimtab.ui import ring as ring_module
from trimtab.ui.ring import Kept, Ring
from trimtab.ui.settings import UiSettings

pytestmark = pytest.mark.anyio


def ring(**settings: object) -> Ring:
    return Ring(UiSettings(**settings), clock=lambda: 1_000.0)  # type: ignore[arg-type]


def add(to: Ring, notes: Notes | None = None, tenant: bytes = b"a") -> Kept:
    notes = notes or Notes("r", "chat")
    notes.tenant = tenant
    to.add(notes.record(notes.clock()), notes)
    kept = to.find(to.newest)
    assert kept is not None
    return kept


async def test_exchanges_are_numbered_and_the_oldest_go_first() -> None:
    kept = ring(keep=3)
    for _ in range(5):
        add(kept)
    assert [each.number for each in kept.after(0)] == [3, 4, 5]
    assert [each.number for each in kept.after(4)] == [5]
    assert (kept.after(5), kept.find(2), kept.find(6)) == ([], None, None)
    assert kept.after(0)[0].ended_at == 1_000.0


async def test_a_record_stays_as_it_was_when_it_is_packed_with_others() -> None:
    kept, notes = ring(), Notes("r", "chat")
    records = [notes.record(float(number)) for number in range(100)]
    for number, record in enumerate(records):
        kept.add(record, notes)
        assert [each.exchange for each in kept.after(0)] == records[: number + 1]
    packed = [isinstance(each.record, bytes) for each in kept.after(0)]
    assert packed.count(False) < 50, "the others wait to be packed together"


async def test_requests_of_one_tenant_with_one_first_question_are_one_conversation() -> None:
    kept = ring()
    short, longer = planned_notes(cycles=2), planned_notes(cycles=9)
    one, two, other = add(kept, short), add(kept, longer), add(kept, longer, tenant=b"b")
    assert one.conversation == two.conversation != ""
    assert other.conversation != two.conversation
    assert add(kept).conversation == ""


async def test_bodies_are_kept_only_where_text_is_asked_for_and_only_the_newest() -> None:
    notes = planned_notes(cycles=2)
    notes.body = b"{}"
    assert add(ring(), notes).bodies is None
    kept = ring(text=True, keep_text=2)
    made = [add(kept, notes) for _ in range(3)]
    assert [each.bodies is not None for each in made] == [False, True, True]
    assert made[2].bodies is not None
    assert made[2].bodies.received == notes.shaping.request.body  # type: ignore[union-attr]


async def test_bodies_take_no_more_memory_than_they_may() -> None:
    notes = planned_notes(cycles=1)
    notes.body = b"x" * 600_000
    kept = ring(text=True, text_mb=1)
    made = [add(kept, notes) for _ in range(3)]
    assert [each.bodies is not None for each in made] == [False, False, True]
    notes.body = b"x" * 2_000_000
    assert add(kept, notes).bodies is None


async def test_figures_that_were_looked_at_outlive_those_of_each_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring_module, "MOST_MESSAGES", 100)
    kept, notes = ring(), planned_notes(cycles=20)
    seen, unseen = add(kept, notes), add(kept, notes)
    assert seen.kinds
    newest = [add(kept, notes) for _ in range(2)]
    assert [each.sketch for each in (seen, unseen)] == [None, None]
    assert [each.sketch is not None for each in newest] == [True, True]
    assert (seen.kinds, unseen.kinds) == (newest[0].kinds, None)


async def test_a_reader_is_woken_by_an_exchange() -> None:
    kept = ring()

    async def follow() -> list[int]:
        seen: list[int] = []
        async for found in kept.follow(0, 30.0):
            seen += [each.number for each in found]
            if len(seen) == 3:
                break
        return seen

    add(kept)
    readers = [asyncio.create_task(follow()), asyncio.create_task(follow())]
    for _ in range(2):
        await asyncio.sleep(0.01)
        add(kept)
    async with asyncio.timeout(5):
        assert await asyncio.gather(*readers) == [[1, 2, 3], [1, 2, 3]]


async def test_a_reader_whose_number_another_process_gave_waits_for_the_next_exchange() -> None:
    kept, seen = ring(), []
    add(kept)

    async def follow() -> None:
        async for found in kept.follow(10**20, 30.0):
            seen.extend(each.number for each in found)
            if seen:
                break

    reader = asyncio.create_task(follow())
    async with asyncio.timeout(5):
        await asyncio.sleep(0.01)
        add(kept)
        await reader
    assert seen == [2]


async def test_a_reader_gets_an_empty_list_when_nothing_comes() -> None:
    async for found in ring().follow(0, 0.01):
        assert found == []
        break


async def test_calls_of_the_summary_model_are_kept() -> None:
    kept, run = ring(), SummaryRun("m", "failed", 1.0, reason="cut_off")
    kept.add_run(run)
    assert [*kept.runs] == [(1_000.0, run)]


async def test_a_record_is_kept_as_it_is() -> None:
    kept, notes = ring(), planned_notes(cycles=9)
    notes.upstream, notes.status, notes.outcome = "up", 200, "shaped"
    notes.calling("up")
    notes.answered(200, 1, "theirs")
    record = notes.record(notes.clock())
    kept.add(record, notes)
    found = kept.find(1)
    assert found is not None
    assert found.exchange == record
