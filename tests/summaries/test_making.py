"""One step of a chain: how far it goes, what is kept of it, and who is left alone after failing."""

from __future__ import annotations

import pytest

from tests.summaries.models import Fixed, Keeper, conversation, said, want
from trimtab.errors import UpstreamTimeout, UpstreamUnreachable
from trimtab.store.memory import MemoryStore
from trimtab.store.sealed import Keyring
from trimtab.summaries.chain import Chain, Found, Writer
from trimtab.summaries.completion import Complete, Completion, Ride
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


async def test_a_step_goes_as_far_as_one_call_can_read() -> None:
    for most, upto in ((100_000, 4), (2_000, 2), (1_000, 1)):
        landing = await maker(Keeper(), max_read_tokens=most).make(chain(), Found())
        assert landing.found is not None
        assert landing.found.upto <= upto
        assert landing.key == chain().key(landing.found.upto)


async def test_what_was_made_is_kept_and_what_failed_is_not() -> None:
    store = MemoryStore()
    await maker(Fixed(Completion("")), store).make(chain(), Found())
    assert await chain().newest(store, 60) is None
    store = MemoryStore()
    landing = await maker(Keeper(), store).make(chain(), Found())
    assert await chain().newest(store, 60) == landing.found


async def test_a_span_that_failed_is_paused_and_another_is_not() -> None:
    model = Fixed(Completion(""))
    making = maker(model)
    assert (await making.make(chain(), Found())).reason == "empty"
    assert (await making.make(chain(), Found())).reason == "paused"
    assert (await making.make(chain(), Found(2, "text"))).reason == "empty"
    assert model.calls == 2


async def test_a_model_that_answers_nonsense_is_not_down() -> None:
    making = maker(Fixed(Completion("")))
    reasons = [(await making.make(chain(), Found(n, "text"))).reason for n in range(4)]
    assert reasons == ["empty"] * 4


async def test_a_model_that_is_down_is_left_alone_after_three_failures() -> None:
    making = maker(Fixed(UpstreamUnreachable("no")))
    reasons = [(await making.make(chain(5), Found(n, "text"))).reason for n in range(5)]
    assert reasons == ["upstream_unreachable"] * 3 + ["model_down"] * 2


async def test_a_failure_between_pieces_keeps_nothing_and_tells_all_calls() -> None:
    class Tiring(Keeper):
        async def __call__(self, request):  # type: ignore[no-untyped-def]
            answer = await super().__call__(request)
            return answer if len(self.asked) < 3 else Completion("")

    messages = [said("system", "s"), said("user", "FACT-00001 " + "so much to read " * 3_000), *MESSAGES[1:4]]
    store, one = MemoryStore(), chain(1, Writer("m", read_tokens=3_000), messages)
    landing = await maker(Tiring(), store).make(one, Found())
    assert (landing.found, landing.reason) == (None, "empty")
    assert [call.result for call in landing.calls] == ["made", "made", "empty"]
    assert await one.newest(store, 60) is None


@pytest.mark.parametrize(("on", "most"), [(True, 100_000), (False, 100_000), (True, 2_000)])
async def test_a_ride_goes_the_whole_way_in_one_call(on: bool, most: int) -> None:
    model = Keeper()
    writer = Writer("m", read_tokens=most, ride=Ride(tuple(MESSAGES[:17])))
    landing = await maker(model, ride_prefix=on).make(chain(4, writer), Found())
    assert [request.ride for request in model.asked] == [on]
    assert landing.found is not None
    assert landing.found.upto == 4


@pytest.mark.parametrize("error", [UpstreamUnreachable("no"), UpstreamTimeout("no")])
async def test_a_model_that_is_away_is_not_asked_again_in_other_words(error: Exception) -> None:
    model = Fixed(error)
    writer = Writer("m", ride=Ride(tuple(MESSAGES[:17])))
    landing = await maker(model).make(chain(4, writer), Found())
    assert (landing.found, model.calls) == (None, 1)
