"""The answer of the plan endpoint."""

from __future__ import annotations

import msgspec

from tests.exchange.requests import shaping
from tests.support.conversations import agent_run, chat
from trimtab.exchange.explain import explain


def test_the_plan_endpoint_explains_a_plan() -> None:
    told = msgspec.to_builtins(explain(shaping(agent_run(30), tools=[{"type": "function"}]), cached=False))
    assert told["model"] == "m"
    assert (told["budget"], told["context_size"], told["reserved_output"]) == (7_168, 8_192, 1_024)
    assert told["fits"]
    assert told["tokens"]["sent"] <= 7_168 < told["tokens"]["original"]
    assert {edit["stage"] for edit in told["edits"]} == {"cleared"}
    assert all(edit["tokens_after"] < edit["tokens_before"] for edit in told["edits"])
    assert all(edit["reason"] for edit in told["edits"])
    assert told["summary"] == {"wanted": False, "cached": False}
    assert told["irreducible"]["question"] > 0


def test_a_plan_that_touches_nothing_needs_no_breakdown() -> None:
    told = explain(shaping(chat(1)), cached=False)
    assert (told.edits, told.irreducible) == ([], None)


def test_the_fields_stand_in_the_order_they_always_had() -> None:
    told = msgspec.json.encode(explain(shaping(chat(1)), cached=True))
    assert list(msgspec.json.decode(told)) == [
        *("model", "budget", "context_size", "reserved_output", "limit_source", "limit_detail", "fits"),
        *("tokens", "edits", "summary", "irreducible"),
    ]
    assert b'"summary":{"wanted":false,"cached":true}' in told
