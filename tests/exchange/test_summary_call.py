"""What a plan asks of the summarizer: in whose name, of which model, and what stands in the gap."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.exchange.requests import shaping
from tests.support.conversations import chat
from tests.support.summary_models import Fixed, Keeper, decoded
from tests.support.waiting import eventually
from trimtab.context.estimate.tokens import text_tokens
from trimtab.context.policy import Policy, ShapingSettings
from trimtab.context.texts import EXTRACT, NOTE, SUMMARY_PREFIX, TRUNCATED
from trimtab.errors import UpstreamUnreachable
from trimtab.exchange.decide import Shaping
from trimtab.exchange.outgoing import outgoing
from trimtab.exchange.report import NO_SUMMARY
from trimtab.exchange.summary_call import Compaction, fitting
from trimtab.store.memory import MemoryStore
from trimtab.summaries.completion import Complete, Completion, CompletionRequest
from trimtab.summaries.prompts import load_prompts
from trimtab.summaries.settings import CompactionSettings
from trimtab.summaries.summarizer import Summarizer

pytestmark = pytest.mark.anyio

POLICY = Policy(compaction=True, summary_tokens=300, precompact_share=0.75)
LONG, NEAR, SHORT = chat(16), chat(11), chat(2)  # about 10,000, 6,800 and 1,400 tokens of 7,168


def compaction(written_by: Complete, **settings: Any) -> Compaction:
    made = CompactionSettings(max_summary_tokens=300, **settings)
    return Compaction(made, Summarizer(made, MemoryStore(), written_by, load_prompts()))


async def is_stored(made: Compaction, shaped: Shaping) -> bool:
    return await made.stored(shaped, b"k") is not None


def decided(messages: list[Any], **given: Any) -> Shaping:
    return shaping(messages, policy=POLICY, **given)


async def test_a_plan_that_wants_no_summary_calls_no_model() -> None:
    model = Keeper()
    made = compaction(model)
    assert await made.gather(decided(SHORT), b"k") is NO_SUMMARY
    assert not await made.stored(decided(SHORT), b"k")
    assert await made.gather(decided(NEAR), b"k") is NO_SUMMARY
    assert model.asked == []


async def test_a_summary_is_made_once_and_then_found() -> None:
    model = Keeper()
    made, shaped = compaction(model), decided(LONG)
    assert shaped.plan.summary
    assert not await made.stored(shaped, b"k")
    first = await made.gather(shaped, b"k")
    calls = len(model.asked)
    again = await made.gather(decided(LONG), b"k")
    assert (first.result, again.result) == ("miss", "hit")
    assert first.text == again.text
    assert first.tokens_in > first.tokens_out > 0 == again.tokens_in
    assert len(model.asked) == calls
    assert await made.stored(shaped, b"k") == again.text


async def test_the_summary_stands_where_the_messages_were() -> None:
    made = decided(LONG)
    gathered = await compaction(Keeper()).gather(made, b"k")
    sent = msgspec.json.decode(outgoing(made, gathered.text, "system", include_usage=False))["messages"]
    (at,) = [i for i, m in enumerate(sent) if str(m["content"]).startswith(SUMMARY_PREFIX)]
    assert sent[at]["role"] == "system"
    assert gathered.text is not None
    assert gathered.text in sent[at]["content"]
    assert sent[0] == LONG[0]
    assert sent[-1] == LONG[-1]
    assert len(sent) < len(LONG)


async def test_each_tenant_has_its_own() -> None:
    model = Keeper()
    made = compaction(model)
    await made.gather(decided(LONG), b"one")
    other = await made.gather(decided(LONG), b"two")
    assert other.result == "miss"
    assert {request.credential for request in model.asked} == {b"one", b"two"}


@pytest.mark.parametrize(("setting", "asked"), [("same", "m"), ("fast", "fast")])
async def test_the_requests_own_model_writes_or_the_one_that_is_named(setting: str, asked: str) -> None:
    model = Keeper()
    await compaction(model, model=setting).gather(decided(LONG), b"k")
    assert {request.model for request in model.asked} == {asked}


async def test_a_model_on_another_server_is_not_shown_the_clients_key_and_tenants_stay_apart() -> None:
    model, settings = Keeper(), CompactionSettings(model="fast", max_summary_tokens=300)
    summarizer = Summarizer(settings, MemoryStore(), model, load_prompts())
    made = Compaction(settings, summarizer, lambda one, other: (one, other) != ("fast", "m"))
    first, other = await made.gather(decided(LONG), b"one"), await made.gather(decided(LONG), b"two")
    assert {request.credential for request in model.asked} == {b""}
    assert (first.result, other.result) == ("miss", "miss")


async def test_what_is_read_is_the_original_and_not_what_was_cut() -> None:
    model, messages = Keeper(), chat(16)
    messages[1]["content"] = "FACT-00001 " + str(messages[1]["content"])
    messages[2]["content"] = str(messages[2]["content"]) + " FACT-00002"
    rules = ShapingSettings(max_message_chars=200, truncate="always", target=0.2)
    made = shaping(messages, policy=msgspec.structs.replace(POLICY, shaping=rules), cap=1_500)
    assert made.plan.summary
    gathered = await compaction(model).gather(made, b"k")
    read = "\n".join(str(decoded(m)["content"]) for request in model.asked for m in request.messages)
    assert "FACT-00002" in read
    assert gathered.text is not None


FAILURES: list[tuple[str, Complete]] = [
    ("is down", Fixed(UpstreamUnreachable("no"))),
    ("says nothing", Fixed(Completion(""))),
    ("is cut off", Fixed(Completion("half a sum", finish_reason="length"))),
    ("calls a tool", Fixed(Completion("text", has_tool_call=True))),
]


@pytest.mark.parametrize(("_", "model"), FAILURES, ids=[row[0] for row in FAILURES])
async def test_a_model_that_fails_leaves_note_and_extract_in_the_gap(_: str, model: Complete) -> None:
    made = decided(LONG)
    gathered = await compaction(model).gather(made, b"k")
    assert (gathered.text, gathered.result) == (None, "fallback")
    sent = msgspec.json.decode(outgoing(made, gathered.text, "system", include_usage=False))["messages"]
    (gap,) = [m["content"] for m in sent if m["content"].startswith(NOTE)]
    assert gap.removeprefix(NOTE).strip().startswith(EXTRACT)


async def test_no_request_waits_longer_than_is_configured_and_the_next_finds_it() -> None:
    model = Keeper(held=True)
    made = compaction(model, summary_wait_s=0.05)
    waited = await made.gather(decided(LONG), b"k")
    assert (waited.text, waited.result) == (None, "fallback")
    model.gate.set()
    await eventually(lambda: is_stored(made, decided(LONG)))
    assert (await made.gather(decided(LONG), b"k")).result == "hit"


async def test_a_shorter_summary_ends_in_the_note() -> None:
    """The first segments are summarized; then the model is gone."""

    class Dying(Keeper):
        async def __call__(self, request: Any) -> Completion:
            if self.asked:
                raise UpstreamUnreachable("gone")
            return await super().__call__(request)

    made = compaction(Dying(), max_read_tokens=2_500)
    whole = decided(chat(40))
    gathered = await made.gather(whole, b"k")
    assert gathered.result == "fallback"
    assert gathered.text is not None
    assert gathered.text.endswith(NOTE)


async def test_the_next_summary_is_made_before_it_is_needed() -> None:
    model = Keeper()
    made, near = compaction(model), decided(NEAR)
    assert near.plan.ahead
    assert not near.plan.edits
    assert await made.prepare(near, b"k")
    assert not await made.prepare(near, b"k")  # under way
    ahead = msgspec.structs.replace(near, plan=msgspec.structs.replace(near.plan, summary=near.plan.ahead))
    await eventually(lambda: is_stored(made, ahead))
    assert not await made.prepare(near, b"k")  # there
    calls = len(model.asked)
    assert calls > 0
    assert (await made.gather(ahead, b"k")).result == "hit"
    assert len(model.asked) == calls


# -- appended to what was sent -----------------------------------------------------------------------------------


async def prepared(made: Shaping, **settings: Any) -> CompletionRequest:
    """The one call that makes the summary ahead."""
    model = Keeper()
    assert await compaction(model, ride_prefix=True, **settings).prepare(made, b"k")
    await eventually(lambda: len(model.asked) > 0)
    (asked,) = model.asked
    return asked


def is_appended(asked: CompletionRequest, made: Shaping) -> bool:
    return asked.messages[0] == bytes(made.request.messages[0])


async def test_the_call_ahead_of_need_is_appended_to_what_was_sent_up_to_its_last_segment() -> None:
    made = decided(NEAR, tools=[{"type": "function"}], temperature=0.7, user="u")
    asked = await prepared(made)
    stop = made.plan.ahead[-1].stop
    assert list(asked.messages[:-1]) == [bytes(raw) for raw in made.request.messages[:stop]]
    assert decoded(asked.messages[-1])["role"] == "user"
    assert set(asked.fields) == {"tools", "user"}


async def test_for_a_named_model_nothing_is_appended_to_what_was_sent() -> None:
    made = decided(NEAR)
    assert not is_appended(await prepared(made, model="fast"), made)


async def test_what_was_cut_is_read_as_it_was_written() -> None:
    messages = chat(11)
    rules = ShapingSettings(max_message_chars=1_200, truncate="always")
    made = shaping(messages, policy=msgspec.structs.replace(POLICY, shaping=rules), cap=6_500)
    assert made.plan.ahead
    assert made.plan.edits
    asked = await prepared(made)
    assert not is_appended(asked, made)


@pytest.mark.parametrize(
    "text", ["The goal. " + "A fact. " * 400 + "The next step.", "目标。" + "事实。" * 400 + "下一步。", "é" * 900]
)
def test_a_summary_longer_than_there_is_room_for_loses_its_middle(text: str) -> None:
    size = text_tokens(text)
    assert fitting(text, size) is text
    assert fitting(None, 0) is None
    for room in (size - 1, size // 2, 40):
        cut = fitting(text, room)
        assert cut is not None
        assert text_tokens(cut) <= room
        assert TRUNCATED in cut
        assert (cut[:3], cut[-3:]) == (text[:3], text[-3:])
    assert fitting(text, 0) == TRUNCATED


async def test_a_long_summary_never_makes_a_request_too_long() -> None:
    """Up to twice the length asked for is taken, so that a talkative model is not asked again and again."""
    shaped = decided(LONG)
    full = msgspec.structs.replace(shaped, plan=msgspec.structs.replace(shaped.plan, budget=shaped.plan.sent + 20))
    talkative = Completion("word " * 400)
    loose = (await compaction(Fixed(talkative)).gather(shaped, b"k")).text or ""
    tight = (await compaction(Fixed(talkative)).gather(full, b"k")).text or ""
    assert 0 < text_tokens(tight) <= 320 < text_tokens(loose) <= 600
