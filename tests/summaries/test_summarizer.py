"""A summary is read, shared or made: once, for the right conversation, and without holding a request up for long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest

from tests.support.summary_models import FACT, FILLER, OPENING, Fixed, Keeper, conversation, decoded, message, want
from tests.support.valkey import Valkey
from tests.support.waiting import eventually
from trimtab.errors import UpstreamError, UpstreamUnreachable
from trimtab.store.keys import lock_key
from trimtab.store.memory import MemoryStore
from trimtab.store.protocol import Store
from trimtab.store.settings import RedisSettings, open_store
from trimtab.summaries.chain import Writer
from trimtab.summaries.completion import Complete, Completion, SentPrefix
from trimtab.summaries.prompts import load_prompts
from trimtab.summaries.settings import CompactionSettings
from trimtab.summaries.summarizer import Summarizer
from trimtab.summaries.writing import SummaryCall

pytestmark = pytest.mark.anyio

ALICE = Writer("model-1", b"Bearer sk-alice")
PROMPTS = load_prompts()
GOOD = OPENING + "the budget is 300 and the deadline is Friday."

Open = Callable[..., Summarizer]


@pytest.fixture
def made_calls() -> list[SummaryCall]:
    """Every call of a summary model in this test."""
    return []


@pytest.fixture
async def opened(made_calls: list[SummaryCall]) -> AsyncIterator[Open]:
    """Opens summarizers, and ends them with the test."""
    async with AsyncExitStack() as stack:

        def make(complete: Complete, store: Store | None = None, **settings: object) -> Summarizer:
            made = Summarizer(
                CompactionSettings(**settings),  # type: ignore[arg-type]
                store if store is not None else MemoryStore(),
                complete,
                PROMPTS,
                made_calls.append,
            )
            stack.push_async_callback(made.drain, 0)
            return made

        yield make


@pytest.fixture
async def shared_store(valkey: Valkey) -> AsyncIterator[Callable[[], Store]]:
    """Opens stores on one server, as replicas do."""
    async with AsyncExitStack() as stack:

        def replica() -> Store:
            store = open_store(RedisSettings(url=f"redis://{valkey.address}", timeout_ms=10_000))
            stack.push_async_callback(store.aclose)
            return store

        yield replica


async def covers(summarizer: Summarizer, messages: list[bytes], segments: int) -> bool:
    """True when a summary of that many segments is stored."""
    return await summarizer.stored(want(messages, segments), ALICE) is not None


# -- found and made ----------------------------------------------------------------------------------------


async def test_it_is_made_once_and_found_after(opened: Open) -> None:
    model, messages = Keeper(), conversation(10)
    summarizer = opened(model)
    first = await summarizer.fetch(want(messages, 3), messages, ALICE)
    again = await summarizer.fetch(want(messages, 3), messages, ALICE)
    assert (first.result, again.result, len(model.asked)) == ("miss", "hit", 1)
    assert first.text == again.text
    assert FACT.findall(first.text or "") == [f"FACT-{n:05d}" for n in range(12)]
    assert first.covers == again.covers == 3
    assert first.tokens_in > 0
    assert again.tokens_in == 0


async def test_a_growing_conversation_reads_each_message_once(opened: Open) -> None:
    model, messages = Keeper(), conversation(40)
    summarizer = opened(model)
    for segments in range(1, 20):
        outcome = await summarizer.fetch(want(messages, segments), messages, ALICE)
        assert (outcome.result, len(model.asked)) == ("miss", segments)
    assert "".join(model.read(n) for n in range(19)).count(FILLER) == 19 * 4
    assert len(set(FACT.findall(outcome.text or ""))) == 19 * 4


async def test_a_call_reads_nothing_but_its_span_and_the_earlier_summary(opened: Open) -> None:
    model, messages = Keeper(), conversation(10)
    summarizer = opened(model)
    await summarizer.fetch(want(messages, 1), messages, ALICE)
    await summarizer.fetch(want(messages, 2), messages, ALICE)
    system, user = (decoded(m) for m in model.asked[1].messages)
    assert system == {"role": "system", "content": PROMPTS["general"].text}
    assert "You are a helpful assistant." not in user["content"]
    facts = FACT.findall(user["content"])
    assert facts == [f"FACT-{n:05d}" for n in range(8)]  # the first four in the earlier summary, in order


async def test_a_long_way_to_go_takes_as_few_calls_as_fit(opened: Open) -> None:
    messages = conversation(40)
    for read_tokens, most in ((100_000, 1), (3_000, 19)):
        model = Keeper()
        outcome = await opened(model).fetch(want(messages, 19), messages, Writer("m", b"k", read_tokens=read_tokens))
        assert outcome.result == "miss"
        assert 1 <= len(model.asked) <= most
        assert len(set(FACT.findall(outcome.text or ""))) == 76
        assert sum(model.read(n).count(FILLER) for n in range(len(model.asked))) == 76


async def test_a_segment_larger_than_the_model_can_read_is_read_in_pieces(opened: Open) -> None:
    facts = [f"FACT-{n:05d}" for n in range(200)]
    page = "\n".join(f"{fact} {'and so on and so forth ' * 10}" for fact in facts)
    messages = [message("system", "s"), message("user", "read it"), message("assistant", page), *conversation(3)[1:]]
    model = Keeper()
    outcome = await opened(model).fetch(
        want(messages, 1, max_tokens=1_500), messages, Writer("m", b"k", read_tokens=4_000)
    )
    assert outcome.result == "miss"
    assert len(model.asked) > 3
    assert set(facts) <= set(FACT.findall(outcome.text or ""))
    assert max(request.max_tokens for request in model.asked) == 3_000


async def test_stored_gives_the_summary_of_all_that_is_wanted_or_none(opened: Open) -> None:
    messages = conversation(10)
    summarizer = opened(Keeper())
    assert await summarizer.stored(want(messages, 2), ALICE) is None
    made = await summarizer.fetch(want(messages, 2), messages, ALICE)
    assert await summarizer.stored(want(messages, 2), ALICE) == made.text
    assert await summarizer.stored(want(messages, 4), ALICE) is None


# -- whose it is -------------------------------------------------------------------------------------------

MESSAGES = conversation(10)
CHANGED = [*MESSAGES[:6], message("assistant", "A regenerated answer. " + FILLER), *MESSAGES[7:]]
OTHERS = {
    "another tenant": (MESSAGES, Writer("model-1", b"Bearer sk-bob")),
    "no credential": (MESSAGES, Writer("model-1", b"")),
    "another model": (MESSAGES, Writer("model-2", b"Bearer sk-alice")),
    "an edited first message": ([MESSAGES[0], message("user", "Hello! " + FILLER), *MESSAGES[2:]], ALICE),
    "a regenerated answer": (CHANGED, ALICE),
    "another name field": ([*MESSAGES[:5], message("user", FILLER, name="bob"), *MESSAGES[6:]], ALICE),
}


@pytest.mark.parametrize(("messages", "writer"), OTHERS.values(), ids=OTHERS.keys())
async def test_a_summary_is_only_for_its_own_conversation_model_and_tenant(
    opened: Open, messages: list[bytes], writer: Writer
) -> None:
    model, store = Keeper(), MemoryStore()
    await opened(model, store).fetch(want(MESSAGES, 2), MESSAGES, ALICE)
    outcome = await opened(model, store).fetch(want(messages, 2), messages, writer)
    assert outcome.result == "miss"
    assert len(model.asked) == 2


async def test_a_branch_shares_what_came_before_it(opened: Open) -> None:
    model, messages = Keeper(), conversation(10)
    summarizer = opened(model)
    await summarizer.fetch(want(messages, 2), messages, ALICE)
    branch = [*messages[:9], message("user", f"FACT-99999 {FILLER}"), *messages[10:]]
    outcome = await summarizer.fetch(want(branch, 3), branch, ALICE)
    assert len(model.asked) == 2
    assert model.read(-1).count(FILLER) == 4
    assert "FACT-99999" in (outcome.text or "")
    back = await summarizer.fetch(want(messages, 3), messages, ALICE)
    assert "FACT-99999" not in (back.text or "")


async def test_two_branches_at_once_do_not_get_each_others(opened: Open) -> None:
    model, messages = Keeper(held=True), conversation(10)
    branch = [*messages[:7], message("user", f"FACT-99999 {FILLER}"), *messages[8:]]
    summarizer = opened(model)
    both = asyncio.gather(
        summarizer.fetch(want(messages, 2), messages, ALICE), summarizer.fetch(want(branch, 2), branch, ALICE)
    )
    await eventually(lambda: len(model.asked) > 0)
    model.gate.set()
    one, other = await both
    assert "FACT-99999" not in (one.text or "")
    assert "FACT-99999" in (other.text or "")


async def test_a_shorter_and_a_longer_request_at_once_read_nothing_twice(opened: Open) -> None:
    model, messages = Keeper(held=True), conversation(10)
    summarizer = opened(model)
    short = asyncio.create_task(summarizer.fetch(want(messages, 1), messages, ALICE))
    await eventually(lambda: len(model.asked) > 0)
    long = asyncio.create_task(summarizer.fetch(want(messages, 3), messages, ALICE))
    await asyncio.sleep(0)
    model.gate.set()
    outcome = await long
    assert (await short).covers == 1
    assert outcome.covers == 3
    assert sum(model.read(n).count(FILLER) for n in range(len(model.asked))) == 12


# -- one at a time -----------------------------------------------------------------------------------------


async def test_fifty_requests_on_two_replicas_make_one_call(opened: Open, shared_store: Callable[[], Store]) -> None:
    model, messages = Keeper(held=True), conversation(10)
    replicas = [opened(model, shared_store()) for _ in range(2)]
    fetching = [asyncio.create_task(replicas[n % 2].fetch(want(messages, 3), messages, ALICE)) for n in range(50)]
    await eventually(lambda: len(model.asked) > 0)
    model.gate.set()
    outcomes = await asyncio.gather(*fetching)
    assert len(model.asked) == 1
    assert {outcome.text for outcome in outcomes} == {outcomes[0].text}
    assert [outcome.tokens_in > 0 for outcome in outcomes].count(True) == 1
    assert {outcome.covers for outcome in outcomes} == {3}


async def test_a_second_replica_makes_no_calls(opened: Open, shared_store: Callable[[], Store]) -> None:
    model, messages = Keeper(), conversation(40)
    for replica, expected in ((opened(model, shared_store()), 19), (opened(model, shared_store()), 19)):
        for segments in range(1, 20):
            await replica.fetch(want(messages, segments), messages, ALICE)
        assert len(model.asked) == expected


async def test_a_crashed_holder_blocks_for_no_longer_than_its_lock(
    opened: Open, shared_store: Callable[[], Store]
) -> None:
    store, messages = shared_store(), conversation(10)
    summarizer = opened(Keeper(), store)
    wanted = want(messages, 1)
    key = summarizer._chain(wanted, messages, ALICE).key(1)
    assert await store.lock(lock_key(key), "a holder that is gone", 0.4)
    start = time.monotonic()
    outcome = await summarizer.fetch(wanted, messages, ALICE)
    assert outcome.result == "miss"
    assert 0.3 < time.monotonic() - start < 2


async def test_a_caller_that_goes_away_ends_nothing(opened: Open) -> None:
    model, messages = Keeper(held=True), conversation(10)
    summarizer = opened(model)
    gone = asyncio.create_task(summarizer.fetch(want(messages, 2), messages, ALICE))
    await eventually(lambda: len(model.asked) > 0)
    stays = asyncio.create_task(summarizer.fetch(want(messages, 2), messages, ALICE))
    await asyncio.sleep(0)
    gone.cancel()
    model.gate.set()
    assert (await stays).result == "miss"
    assert len(model.asked) == 1


async def test_the_wait_is_bounded_and_the_work_goes_on(opened: Open) -> None:
    model, messages = Keeper(held=True), conversation(10)
    summarizer = opened(model, summary_wait_s=0.05)
    outcome = await summarizer.fetch(want(messages, 2), messages, ALICE)
    assert (outcome.result, outcome.text) == ("fallback", None)
    model.gate.set()
    await eventually(lambda: covers(summarizer, messages, 2))
    assert (await summarizer.fetch(want(messages, 2), messages, ALICE)).result == "hit"
    assert len(model.asked) == 1


async def test_a_fallback_offers_the_newest_summary_there_is(opened: Open) -> None:
    messages = conversation(10)
    model = Keeper()
    summarizer = opened(model, summary_wait_s=0.05)
    before = await summarizer.fetch(want(messages, 2), messages, ALICE)
    model.gate.clear()
    outcome = await summarizer.fetch(want(messages, 3), messages, ALICE)
    assert (outcome.result, outcome.covers, outcome.text) == ("fallback", 2, before.text)


# -- what models do ----------------------------------------------------------------------------------------

FAULTS: dict[str, tuple[Completion | Exception, str]] = {
    "down": (UpstreamUnreachable("no connection"), "upstream_unreachable"),
    "rate limited": (UpstreamError("the upstream answered 429"), "upstream_error"),
    "empty": (Completion(""), "empty"),
    "only reasoning": (Completion("", finish_reason="length"), "cut_off"),
    "cut off": (Completion(GOOD, finish_reason="length"), "cut_off"),
    "filtered": (Completion(GOOD, finish_reason="content_filter"), "filtered"),
    "a tool call": (Completion(GOOD, finish_reason="tool_calls", has_tool_call=True), "tool_call"),
    "one word": (Completion("NOTHING"), "too_short"),
    "another language": (Completion("用户希望完成报告，预算为三百，截止日期是星期五。" * 3), "language"),
    "longer than its input": (Completion(GOOD * 300), "not_smaller"),
    "longer than asked": (Completion(GOOD * 29), "too_long"),
}


@pytest.mark.parametrize(("answer", "reason"), FAULTS.values(), ids=FAULTS.keys())
async def test_a_bad_answer_is_one_failure_and_not_tried_again(
    opened: Open, made_calls: list[SummaryCall], answer: Completion | Exception, reason: str
) -> None:
    model, messages = Fixed(answer), conversation(10)
    summarizer = opened(model)
    outcome = await summarizer.fetch(want(messages, 2), messages, ALICE)
    assert (outcome.result, outcome.text) == ("fallback", None)
    again = await summarizer.fetch(want(messages, 3), messages, ALICE)
    assert (again.result, again.tokens_in) == ("fallback", 0)
    assert [call.result for call in made_calls] == [reason]
    assert model.calls == 1


async def test_a_hanging_model_is_given_up(opened: Open, made_calls: list[SummaryCall]) -> None:
    model, messages = Fixed(Completion(GOOD), held=True), conversation(10)
    outcome = await opened(model, call_timeout_s=0.1).fetch(want(messages, 2), messages, ALICE)
    assert outcome.result == "fallback"
    assert [call.result for call in made_calls] == ["upstream_timeout"]


async def test_a_failure_is_seen_by_all_replicas(opened: Open, shared_store: Callable[[], Store]) -> None:
    model, messages = Fixed(UpstreamError("429"), held=True), conversation(10)
    replicas = [opened(model, shared_store()) for _ in range(2)]
    fetching = [asyncio.create_task(replicas[n % 2].fetch(want(messages, 2), messages, ALICE)) for n in range(20)]
    await eventually(lambda: model.calls > 0)
    model.gate.set()
    outcomes = await asyncio.gather(*fetching)
    assert {outcome.result for outcome in outcomes} == {"fallback"}
    assert model.calls == 1


async def test_a_model_that_fails_for_all_conversations_is_left_alone(opened: Open) -> None:
    model = Fixed(UpstreamUnreachable("no connection"))
    summarizer = opened(model)
    for n in range(10):
        messages = [*conversation(0), message("user", f"Conversation {n}"), *conversation(10)[1:]]
        await summarizer.fetch(want(messages, 1), messages, ALICE)
    assert model.calls == 3
    messages = conversation(10)
    await summarizer.fetch(want(messages, 1), messages, Writer("model-1", b"bob"))
    assert model.calls == 4  # one tenant's failures do not stop another's calls


async def test_a_bug_in_the_call_is_not_hidden(opened: Open) -> None:
    messages = conversation(10)
    with pytest.raises(KeyError):
        await opened(Fixed(KeyError("bug"))).fetch(want(messages, 1), messages, ALICE)


# -- ahead of need -----------------------------------------------------------------------------------------


async def test_what_was_prepared_is_there_when_it_is_needed(opened: Open) -> None:
    model, messages = Keeper(held=True), conversation(10)
    summarizer = opened(model)
    assert await summarizer.prepare(want(messages, 2), messages, ALICE)
    assert not await summarizer.prepare(want(messages, 2), messages, ALICE)  # under way
    model.gate.set()
    await eventually(lambda: covers(summarizer, messages, 2))
    assert not await summarizer.prepare(want(messages, 2), messages, ALICE)  # there
    assert (await summarizer.fetch(want(messages, 2), messages, ALICE)).result == "hit"
    assert len(model.asked) == 1


async def test_a_request_joins_what_is_being_prepared(opened: Open) -> None:
    model, messages = Keeper(held=True), conversation(10)
    summarizer = opened(model)
    assert await summarizer.prepare(want(messages, 2), messages, ALICE)
    await eventually(lambda: len(model.asked) > 0)
    fetching = asyncio.create_task(summarizer.fetch(want(messages, 2), messages, ALICE))
    await asyncio.sleep(0)
    model.gate.set()
    outcome = await fetching
    assert (outcome.result, outcome.tokens_in, len(model.asked)) == ("miss", 0, 1)


async def test_work_ahead_is_bounded(opened: Open) -> None:
    summarizer = opened(Keeper(held=True), max_background=2)
    begun = []
    for n in range(5):
        messages = [*conversation(0), message("user", f"Conversation {n}"), *conversation(10)[1:]]
        begun.append(await summarizer.prepare(want(messages, 1), messages, ALICE))
    assert begun == [True, True, False, False, False]


@pytest.mark.parametrize(("answers", "grace_s", "left"), [(True, 5.0, True), (False, 0.0, False)])
async def test_at_shutdown_work_is_finished_or_cancelled(
    opened: Open, answers: bool, grace_s: float, left: bool
) -> None:
    store, messages, idle = MemoryStore(), conversation(10), len(asyncio.all_tasks())
    model = Keeper(held=True)
    summarizer = opened(model, store)
    await summarizer.prepare(want(messages, 1), messages, ALICE)
    await eventually(lambda: len(model.asked) > 0)
    if answers:
        model.gate.set()
    await summarizer.drain(grace_s)
    assert await covers(opened(Keeper(), store), messages, 1) is left
    assert not await summarizer.prepare(want(messages, 1), messages, ALICE)
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) == idle


# -- appended to what was sent -----------------------------------------------------------------------------


async def test_a_call_may_append_one_message_to_what_was_sent(opened: Open) -> None:
    model, messages = Keeper(), conversation(10)
    writer = Writer("m", b"k", prefix=SentPrefix(tuple(messages[:9])))
    outcome = await opened(model, ride_prefix=True).fetch(want(messages, 2), messages, writer)
    assert outcome.result == "miss"
    assert model.asked[0].messages[:-1] == tuple(messages[:9])
    assert decoded(model.asked[0].messages[-1])["role"] == "user"


async def test_an_appended_call_that_the_clients_instructions_spoil_is_followed_by_a_separate_one(
    opened: Open, made_calls: list[SummaryCall]
) -> None:
    class Obedient(Keeper):
        async def __call__(self, request):  # type: ignore[no-untyped-def]
            answer = await super().__call__(request)
            return Completion("NOTHING") if "output NOTHING" in self.read(-1) else answer

    messages = [message("system", "If there is nothing to do, output NOTHING."), *conversation(10)[1:]]
    writer = Writer("m", b"k", prefix=SentPrefix(tuple(messages[:9])))
    model = Obedient()
    outcome = await opened(model, ride_prefix=True).fetch(want(messages, 2), messages, writer)
    assert outcome.result == "miss"
    assert [request.messages[0] == messages[0] for request in model.asked] == [True, False]
    assert [call.result for call in made_calls] == ["too_short", "made"]


# -- what stores do ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["kill", "freeze"])
async def test_without_its_server_a_replica_goes_on(opened: Open, fault: str) -> None:
    server = Valkey()
    store = open_store(RedisSettings(url=f"redis://{server.address}"))
    try:
        await store.ping()
        model, messages = Keeper(), conversation(20)
        summarizer = opened(model, store)
        await summarizer.fetch(want(messages, 1), messages, ALICE)
        getattr(server, fault)()
        start = time.monotonic()
        for segments in (1, 2, 3, 3):
            outcome = await summarizer.fetch(want(messages, segments), messages, ALICE)
            assert outcome.covers == segments
        assert time.monotonic() - start < 0.4
        assert len(model.asked) == 3
    finally:
        server.thaw()
        await store.aclose()
        server.stop()


@pytest.mark.parametrize("garbage", [b"", b"garbage", b'{"v":0}', b"\x01" + b"x" * 500, b"x" * (5 << 20)])
async def test_garbage_in_the_store_is_a_miss_and_is_written_over(
    opened: Open, shared_store: Callable[[], Store], valkey: Valkey, garbage: bytes
) -> None:
    messages = conversation(10)
    first = await opened(Keeper(), shared_store()).fetch(want(messages, 1), messages, ALICE)
    keys = [key for key in valkey.client().keys("trimtab:v1:s:*")]
    assert len(keys) == 1
    valkey.client().set(keys[0], garbage)
    model = Keeper()
    outcome = await opened(model, shared_store()).fetch(want(messages, 1), messages, ALICE)
    assert (outcome.result, outcome.text, len(model.asked)) == ("miss", first.text, 1)
    assert (await opened(model, shared_store()).fetch(want(messages, 1), messages, ALICE)).result == "hit"


async def test_neither_conversation_nor_credential_lies_in_the_server(
    opened: Open, shared_store: Callable[[], Store], valkey: Valkey
) -> None:
    messages = conversation(10)
    await opened(Keeper(), shared_store()).fetch(want(messages, 2), messages, ALICE)
    client = valkey.client()
    held = b"".join(key + (client.get(key) or b"") for key in client.keys("*"))
    for secret in (b"FACT", b"sk-alice", b"model-1", b"report"):
        assert secret not in held
