"""From a request to a decision, from a decision to the bytes that go upstream."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.exchange.requests import WINDOW, shaping
from tests.support.conversations import agent_run, chat, prose
from trimtab.calibration.counts import NO_COUNT, Count, LastCount
from trimtab.context.edits import Breakdown
from trimtab.context.policy import Policy, ShapingSettings
from trimtab.context.texts import PLACEHOLDER
from trimtab.exchange.shape import DOUBT, REFUSE_AT, outgoing, refusal, send_untouched_if_it_may_fit, too_long
from trimtab.limits import DEFAULT, Limit


def sent(made: Any, summary: str | None = None, *, ask_usage: bool = False) -> Any:
    return msgspec.json.decode(outgoing(made, summary, "system", ask_usage=ask_usage))


def test_what_fits_goes_out_as_the_very_bytes_received() -> None:
    made = shaping(chat(2), seed=1)
    assert outgoing(made, None, "system", ask_usage=False) is made.request.body


def test_only_the_edited_messages_of_a_request_are_new() -> None:
    messages = agent_run(30)
    made = shaping(messages, vendor={"x": 1e21})
    body = sent(made)
    edited = {edit.index for edit in made.plan.edits}
    assert body["vendor"] == {"x": 1e21}
    assert edited
    assert [i for i, m in enumerate(body["messages"]) if m != messages[i]] == sorted(edited)
    assert all(body["messages"][i]["content"] == PLACEHOLDER for i in edited)


@pytest.mark.parametrize(
    ("options", "becomes"),
    [
        ({}, {"include_usage": True}),
        ({"stream_options": None}, {"include_usage": True}),
        ({"stream_options": {"x": 1}}, {"x": 1, "include_usage": True}),
        ({"stream_options": {"include_usage": False}}, {"include_usage": True}),
    ],
)
def test_usage_is_asked_for_beside_the_clients_own_options(options: dict[str, Any], becomes: Any) -> None:
    assert sent(shaping(chat(1), stream=True, **options), ask_usage=True)["stream_options"] == becomes


@pytest.mark.parametrize(
    ("field", "stays"),
    [({"edits": []}, False), ({"strategy": "theirs"}, True), ([{"type": "compaction"}], True)],
)
def test_a_context_management_for_this_proxy_is_taken_out_and_any_other_is_not(field: Any, stays: bool) -> None:
    body = sent(shaping(chat(1), context_management=field))
    assert ("context_management" in body) is stays


@pytest.mark.parametrize(
    ("fields", "lowered"),
    [
        ({"max_tokens": 4_000}, {"max_tokens"}),
        ({"max_completion_tokens": 4_000}, {"max_completion_tokens"}),
        ({"max_tokens": 4_000, "max_completion_tokens": 3_900}, {"max_tokens", "max_completion_tokens"}),
        ({"max_tokens": 100, "max_completion_tokens": 4_000}, {"max_completion_tokens"}),
        ({"max_tokens": "100", "max_completion_tokens": 4_000}, {"max_completion_tokens"}),
        ({"max_tokens": 4_000, "max_completion_tokens": 3_900.0}, {"max_tokens"}),
        ({"max_tokens": 500}, set()),
        ({}, set()),
    ],
)
def test_an_output_that_does_not_fit_beside_the_input_is_lowered_and_no_history_goes(
    fields: dict[str, int], lowered: set[str]
) -> None:
    limit = Limit(context_size=8_192, max_output_tokens=1_024, source="configured")
    made = shaping([{"role": "user", "content": prose(5_500)}], limit=limit, **fields)
    body = sent(made)
    assert not made.plan.edits
    assert {name for name, value in fields.items() if body[name] < value} == lowered
    assert all(5_500 + body[name] <= 8_192 for name in lowered)
    assert set(body) == {"model", "messages", *fields}


def test_a_cap_lowers_the_budget_and_never_raises_it() -> None:
    assert shaping(chat(1), cap=2_000).budget.usable == 2_000
    assert shaping(chat(1), cap=50_000).budget.usable == 7_168
    assert shaping(chat(1), cap=0).budget.usable == 1


def test_sizes_are_told_in_the_upstreams_own_tokens() -> None:
    plain, dear = shaping(agent_run(30)), shaping(agent_run(30), factor=1.5)
    assert dear.plan.budget == int(7_168 / 1.5)
    assert dear.counted(dear.plan.sent) <= 7_168
    assert dear.counted(100) == 150
    assert dear.plan.sent < plain.plan.sent


def question(tokens: int) -> list[dict[str, Any]]:
    return [{"role": "system", "content": prose(200)}, {"role": "user", "content": prose(tokens)}]


@pytest.mark.parametrize(
    ("tokens", "limit", "refused"),
    [
        (2_000, WINDOW, False),
        (20_000, WINDOW, True),
        (int(7_168 * (REFUSE_AT - 0.05)), WINDOW, False),  # within the estimate's error the upstream decides
        (900_000, DEFAULT, False),  # the limit is a guess
    ],
)
def test_only_what_surely_cannot_fit_is_refused_unseen(tokens: int, limit: Limit, refused: bool) -> None:
    assert (refusal(shaping(question(tokens), limit=limit)) is not None) is refused


def test_a_long_history_is_never_a_reason_to_refuse() -> None:
    assert refusal(shaping(chat(200))) is None


def test_the_refusal_gives_the_numbers_and_what_to_do() -> None:
    made = shaping(question(20_000))
    error = refusal(made)
    assert error is not None
    told = error.detail["tokens"]
    assert (told["limit"], told["context_size"], told["reserved_output"]) == (7_168, 8_192, 1_024)
    assert told["question"] > 15_000 > told["system"] > 100
    assert told["tools"] == 0
    assert error.detail["limit_source"] == "configured"
    assert (error.status, error.code, error.param) == (400, "context_length_exceeded", "messages")
    assert f"({told['question']})" in error.message
    assert "Start a new chat" in error.message


def test_what_the_upstream_said_stands_in_the_error_and_what_it_did_not_say_does_not() -> None:
    error = too_long(shaping(chat(1)), Breakdown(1, 2, 3), reported=9_000, upstream=None)
    assert error.detail["reported"] == 9_000
    assert "upstream" not in error.detail
    assert "about 6 tokens" in error.message


def test_under_always_a_request_that_fits_is_cut_too() -> None:
    rules = ShapingSettings(truncate="always", max_message_chars=100)
    body = sent(shaping([{"role": "user", "content": "go"}, *agent_run(1)[2:], *chat(0)], rules=rules))
    assert body["messages"][2]["content"].endswith("[Truncated]")
    assert body["messages"][0] == {"role": "user", "content": "go"}


# -- sent as received because it may fit ------------------------------------------------------------------------


def over(share: float, **given: Any) -> Any:
    """A conversation whose estimate is `share` of the budget."""
    messages = agent_run(13)
    estimate = shaping(messages, limit=DEFAULT).plan.original
    usable = int(estimate / share)
    limit = Limit(context_size=usable + 1_024, max_output_tokens=1_024, source="configured")
    return shaping(messages, **{"limit": limit, **given})


UNTOUCHED: list[tuple[str, float, LastCount, dict[str, Any], bool]] = [
    ("fits", 0.9, NO_COUNT, {}, True),
    ("a little over, never counted", 1.05, NO_COUNT, {}, True),
    ("clearly over, never counted", DOUBT + 0.05, NO_COUNT, {}, False),
    ("a little over, counted smaller", 1.05, LastCount(Count(0.9, tokens=6_000), 200), {}, True),
    ("a little over, counted as large", 1.05, LastCount(Count(1.0, tokens=7_500), 500), {}, False),
    ("a little over, being shaped already", 1.05, LastCount(Count(0.9, factor=1.0), 0), {}, False),
    ("an operator's own budget", 1.05, NO_COUNT, {"cap": 5_000}, False),
    ("a guessed limit", 1.05, NO_COUNT, {"trusted": False}, False),
    ("a plain window", 1.05, NO_COUNT, {"rules": ShapingSettings(max_messages=4)}, False),
    ("asked for clearing itself", 1.05, NO_COUNT, {"policy": Policy(managed=True)}, False),
]


@pytest.mark.parametrize(("_", "share", "last", "given", "untouched"), UNTOUCHED, ids=[row[0] for row in UNTOUCHED])
def test_what_fits_or_may_well_fit_is_sent_send_untouched_if_it_may_fit(
    _: str, share: float, last: LastCount, given: dict[str, Any], untouched: bool
) -> None:
    trusted = given.pop("trusted", True) if "trusted" in given else True
    made = over(share, **given)
    if not trusted:
        made = msgspec.structs.replace(made, limit=msgspec.structs.replace(made.limit, trusted=False))
    decided = send_untouched_if_it_may_fit(made, last)
    assert (decided.plan.edits == ()) is untouched
    if not untouched:
        assert decided is made


def test_pins_are_still_stripped_of_what_is_sent_send_untouched_if_it_may_fit() -> None:
    messages = agent_run(13)
    messages[1]["pinned"] = True
    estimate = shaping(messages, limit=DEFAULT).plan.original
    usable = int(estimate / 1.04)
    limit = Limit(context_size=usable + 1_024, max_output_tokens=1_024, source="configured")
    made = shaping(messages, limit=limit)
    decided = send_untouched_if_it_may_fit(made, NO_COUNT)
    assert made.plan.edits
    assert decided.plan.edits == ()
    assert decided.plan.unpin == (1,)
    assert WINDOW.trusted


def test_the_summary_that_was_wanted_is_made_beside_a_request_sent_send_untouched_if_it_may_fit() -> None:
    messages = chat(12)
    estimate = shaping(messages, limit=DEFAULT).plan.original
    limit = Limit(context_size=int(estimate / 1.04) + 1_024, max_output_tokens=1_024, source="configured")
    made = shaping(messages, limit=limit, policy=Policy(compaction=True, summary_tokens=300))
    decided = send_untouched_if_it_may_fit(made, NO_COUNT)
    assert made.plan.summary
    assert (decided.plan.summary, decided.plan.ahead) == ((), made.plan.summary)
