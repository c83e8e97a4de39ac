"""What is noted while an exchange goes on becomes one record, whatever came of it."""

from __future__ import annotations

import contextlib

import msgspec
import pytest

from tests.exchange.requests import WINDOW, shaping
from tests.support.clock import Clock
from tests.support.conversations import agent_run, chat
from trimtab.context.edits import Edit, Plan
from trimtab.exchange.notes import Notes, Relayed, prices
from trimtab.exchange.report import Gathered
from trimtab.limits import Prices as LimitPrices
from trimtab.telemetry import Edited, Outcome, Prices, Tokens, Usage

ENDED = 0.0  # when an exchange ended, where it does not matter


def test_an_exchange_of_which_nothing_is_known_has_failed_and_called_no_upstream() -> None:
    record = Notes("r", "chat").record(ENDED)
    assert (record.request_id, record.path, record.outcome, record.status) == ("r", "chat", "failed", 0)
    assert (record.upstream_status, record.tokens, record.edits, record.usage) == (None, Tokens(), (), None)
    assert (record.timing.shaping, record.timing.upstream_ttfb, record.estimate_ratio) == (None, None, None)


def sent() -> Notes:
    """Notes of a request that the upstream has answered."""
    notes = Notes("r", "chat")
    notes.calling("up")
    notes.answered(200, 0)
    return notes


def test_what_was_decided_stands_in_the_record_in_the_upstreams_tokens() -> None:
    made, notes = shaping(agent_run(30), factor=1.2), sent()
    notes.planned(made, 0.25)
    notes.gathered = Gathered("text", "hit")
    record = notes.record(ENDED)
    assert record.tokens == Tokens(
        made.counted(made.plan.original), made.counted(made.plan.sent), 7_168, 8_192, "configured"
    )
    assert [edited.stage for edited in record.edits] == ["cleared"]
    assert (record.summary, record.prefix_break) == ("hit", made.plan.prefix_break or "")
    assert record.timing.shaping == 0.25


def test_a_second_plan_takes_the_firsts_place_and_its_time_is_added() -> None:
    notes = sent()
    notes.planned(shaping(chat(1)), 0.25)
    notes.planned(shaping(agent_run(30)), 0.5)
    assert notes.record(ENDED).timing.shaping == 0.75
    assert notes.record(ENDED).edits
    notes.planned(shaping(chat(1)), 0.0)
    assert notes.record(ENDED).edits == ()


def test_time_that_was_not_ours_is_not_overhead() -> None:
    clock = Clock()
    notes = Notes("r", "chat", clock)
    with notes.waiting():
        clock.now += 5
    clock.now += 1
    notes.calling("up")
    clock.now += 3
    notes.answered(503, 1)
    notes.calling("up")
    clock.now += 4
    notes.answered(200, 1)
    clock.now += 10
    record = notes.record(clock.now)
    assert (record.timing.duration, record.timing.overhead, record.timing.upstream_ttfb) == (23, 1, 7)
    with notes.waiting():
        clock.now += 30  # for another summary, before the second call
    assert notes.record(clock.now).timing.overhead == 1
    clock.now -= 30
    assert (record.upstream_status, record.retries) == (200, 2)
    assert notes.record(clock.now) == record


def test_waiting_that_ends_in_an_error_was_waiting_too() -> None:
    clock = Clock()
    notes = Notes("r", "chat", clock)
    with contextlib.suppress(TimeoutError), notes.waiting():
        clock.now += 2
        raise TimeoutError
    assert notes.waited == 2


def test_what_was_relayed_is_added_to_what_is_known() -> None:
    notes = Notes("r", "chat")
    notes.outcome = "passed"
    notes.relayed(Relayed(200, stream=True, usage=Usage(7), overflow=True))
    assert (notes.outcome, notes.status, notes.stream, notes.usage, notes.overflow) == (
        *("passed", 200, True),
        *(Usage(7), True),
    )
    notes.relayed(Relayed(502, failure="upstream_error", error_code="upstream_unreachable"))
    assert (notes.outcome, notes.status, notes.error_code) == ("upstream_error", 502, "upstream_unreachable")
    assert (notes.stream, notes.usage, notes.overflow) == (True, Usage(7), True)


@pytest.mark.parametrize(("usage", "ratio"), [(None, None), (Usage(0), None), (Usage(600), 1.5), (Usage(200), 0.5)])
def test_the_ratio_is_of_what_was_reported_to_what_was_expected(usage: Usage | None, ratio: float | None) -> None:
    notes = Notes("r", "chat")
    made = msgspec.structs.replace(shaping(chat(1), factor=2.0), plan=Plan(200, 200, 7_168, True))
    notes.planned(made, 0.0)
    notes.usage = usage
    assert notes.record(ENDED).estimate_ratio == ratio


def test_inputs_cleared_break_a_prefix_as_clearing() -> None:
    notes = sent()
    edit = Edit("inputs_cleared", 2, 50, 10, "with the result")
    plan = Plan(200, 160, 7_168, True, edits=(edit,), prefix_break="inputs_cleared")
    notes.planned(msgspec.structs.replace(shaping(chat(1)), plan=plan), 0.0)
    assert notes.record(ENDED).prefix_break == "cleared"
    assert notes.record(ENDED).edits == (Edited("cleared", 0, 40),)


@pytest.mark.parametrize(
    ("of", "becomes"),
    [
        (None, None),
        (LimitPrices(output=2.0), None),
        (LimitPrices(input=1.0), Prices(1.0, 0.0, 1.0)),
        (LimitPrices(input=1.0, output=2.0, cache_read=0.0), Prices(1.0, 2.0, 0.0)),
    ],
)
def test_a_cached_token_costs_the_full_price_where_nothing_else_is_known(
    of: LimitPrices | None, becomes: Prices | None
) -> None:
    assert prices(of) == becomes


def test_the_models_prices_go_with_the_record() -> None:
    notes = Notes("r", "chat")
    limit = msgspec.structs.replace(WINDOW, prices=LimitPrices(input=1.0, output=2.0, cache_read=0.1))
    notes.planned(shaping(chat(1), limit=limit), 0.0)
    assert notes.record(ENDED).prices == Prices(1.0, 2.0, 0.1)


@pytest.mark.parametrize("outcome", ["refused", "upstream_error"])
def test_what_was_refused_or_never_arrived_was_not_sent(outcome: Outcome) -> None:
    notes = sent() if outcome == "refused" else Notes("r", "chat")
    if outcome != "refused":
        notes.calling("up")
        notes.unanswered(2)
    made = shaping(agent_run(30))
    notes.planned(made, 0.1)
    notes.outcome = outcome
    record, report = notes.record(ENDED), notes.report()
    assert (record.tokens.original, record.tokens.sent, record.edits) == (made.counted(made.plan.original), 0, ())
    assert report is not None
    assert b"sent=0" in dict(report.headers())[b"x-trimtab-tokens"]
