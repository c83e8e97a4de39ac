"""One step of a chain: how far it goes, what is stored of it, and what is left alone after a failure."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.support.summary_models import Fixed, Keeper, conversation, message, want
from trimtab.errors import UpstreamTimeout, UpstreamUnreachable
from trimtab.store.memory import MemoryStore
from trimtab.store.sealed import Keyring
from trimtab.summaries.chain import Chain, Summary, Writer
from trimtab.summaries.completion import Complete, Completion, CompletionRequest, SentPrefix
from trimtab.summaries.making import Maker
from trimtab.summaries.prompts import load_prompts
from trimtab.summaries.settings import CompactionSettings
from trimtab.summaries.writing import Author

pytestmark = pytest.mark.anyio

MESSAGES = conversation(40)
PROMPT = load_prompts()["general"]
WRITER = Writer("m")


def chain(segments: int = 4, writer: Writer = WRITER, messages: list[bytes] = MESSAGES) -> Chain:
    return Chain(want(messages, segments), messages, writer, Keyring("s").tenant(b"k"), PROMPT)


def maker(model: Complete, store: MemoryStore | None = None, **settings: object) -> Maker:
    made = CompactionSettings(**settings)  # type: ignore[arg-type]
    return Maker(made, store or MemoryStore(), Author(model, 5, lambda call: None))


async def results(making: Maker, bases: Sequence[Summary]) -> list[str | None]:
    """The result of the call of each step; None where none was made."""
    attempts = [await making.make(chain(5), base) for base in bases]
    return [attempt.calls[0].result if attempt.calls else None for attempt in attempts]


async def test_a_step_goes_as_far_as_one_call_can_read() -> None:
    for most, upto in ((100_000, 4), (2_000, 2), (1_000, 1)):
        attempt = await maker(Keeper(), max_read_tokens=most).make(chain(), Summary())
        assert attempt.summary is not None
        assert attempt.summary.segments <= upto
        assert attempt.key == chain().key(attempt.summary.segments)


async def test_what_was_made_is_stored_and_what_failed_is_not() -> None:
    store = MemoryStore()
    await maker(Fixed(Completion("")), store).make(chain(), Summary())
    assert await chain().newest(store, 60) is None
    store = MemoryStore()
    attempt = await maker(Keeper(), store).make(chain(), Summary())
    assert await chain().newest(store, 60) == attempt.summary


async def test_a_span_that_failed_is_paused_and_another_is_not() -> None:
    making = maker(Fixed(Completion("")))
    assert await results(making, (Summary(), Summary(), Summary(2, "text"))) == ["empty", None, "empty"]


async def test_a_model_whose_answers_are_rejected_is_not_down() -> None:
    making = maker(Fixed(Completion("")))
    assert await results(making, [Summary(n, "text") for n in range(4)]) == ["empty"] * 4


async def test_a_model_that_is_down_is_left_alone_after_three_failures() -> None:
    making = maker(Fixed(UpstreamUnreachable("no")))
    found = await results(making, [Summary(n, "text") for n in range(5)])
    assert found == ["upstream_unreachable"] * 3 + [None] * 2


async def test_a_failure_between_pieces_stores_nothing_and_reports_all_calls() -> None:
    class Tiring(Keeper):
        async def __call__(self, request):  # type: ignore[no-untyped-def]
            answer = await super().__call__(request)
            return answer if len(self.asked) < 3 else Completion("")

    messages = [message("system", "s"), message("user", "FACT-00001 " + "so much to read " * 3_000), *MESSAGES[1:4]]
    store, one = MemoryStore(), chain(1, Writer("m", read_tokens=3_000), messages)
    attempt = await maker(Tiring(), store).make(one, Summary())
    assert attempt.summary is None
    assert [call.result for call in attempt.calls] == ["made", "made", "empty"]
    assert await one.newest(store, 60) is None


@pytest.mark.parametrize(("on", "most"), [(True, 100_000), (False, 100_000), (True, 2_000)])
async def test_an_appended_call_covers_all_segments(on: bool, most: int) -> None:
    model = Keeper()
    writer = Writer("m", read_tokens=most, prefix=SentPrefix(tuple(MESSAGES[:17])))
    attempt = await maker(model, ride_prefix=on).make(chain(4, writer), Summary())
    assert [request.messages[:17] == tuple(MESSAGES[:17]) for request in model.asked] == [on]
    assert attempt.summary is not None
    assert attempt.summary.segments == 4


@pytest.mark.parametrize("error", [UpstreamUnreachable("no"), UpstreamTimeout("no")])
async def test_a_model_that_is_away_is_not_asked_again_in_the_other_form(error: Exception) -> None:
    model = Fixed(error)
    writer = Writer("m", prefix=SentPrefix(tuple(MESSAGES[:17])))
    attempt = await maker(model).make(chain(4, writer), Summary())
    assert (attempt.summary, model.calls) == (None, 1)


async def test_a_rejected_call_before_it_is_a_part_of_what_a_summary_cost() -> None:
    class Obeying(Keeper):
        """Answers the conversation where the instruction is appended to it, and summarizes a separate call."""

        async def __call__(self, request: CompletionRequest) -> Completion:
            made = await super().__call__(request)
            return Completion("", prompt_tokens=500) if len(self.asked) == 1 else made

    model, store = Obeying(), MemoryStore()
    one = chain(4, Writer("m", read_tokens=100_000, prefix=SentPrefix(tuple(MESSAGES[:17]))))
    attempt = await maker(model, store).make(one, Summary())
    assert [call.result for call in attempt.calls] == ["empty", "made"]
    assert attempt.summary is not None
    assert attempt.summary.spent.calls == 2
    assert attempt.summary.spent.tokens_in == sum(call.tokens_in for call in attempt.calls) > 500
    assert await one.newest(store, 60) == attempt.summary
