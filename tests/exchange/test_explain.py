"""The answer of the plan endpoint."""

from __future__ import annotations

import msgspec

from tests.exchange.requests import shaping
from tests.support.conversations import agent_run, chat
from trimtab.exchange.explain import explain


def test_the_plan_endpoint_explains_a_plan() -> None:
    plan = msgspec.to_builtins(explain(shaping(agent_run(30), tools=[{"type": "function"}]), cached=False))
    assert plan["model"] == "m"
    assert (plan["budget"], plan["context_size"], plan["reserved_output"]) == (7_168, 8_192, 1_024)
    assert plan["fits"]
    assert plan["tokens"]["sent"] <= 7_168 < plan["tokens"]["original"]
    assert {edit["stage"] for edit in plan["edits"]} == {"cleared"}
    assert all(edit["tokens_after"] < edit["tokens_before"] for edit in plan["edits"])
    assert all(edit["reason"] for edit in plan["edits"])
    assert plan["summary"] == {"wanted": False, "cached": False}
    assert plan["irreducible"]["question"] > 0


def test_a_plan_that_touches_nothing_needs_no_breakdown() -> None:
    plan = explain(shaping(chat(1)), cached=False)
    assert (plan.edits, plan.irreducible) == ([], None)


def test_the_fields_stand_in_the_order_they_always_had() -> None:
    plan = msgspec.json.encode(explain(shaping(chat(1)), cached=True))
    assert list(msgspec.json.decode(plan)) == [
        *("model", "budget", "context_size", "reserved_output", "limit_source", "limit_detail", "fits"),
        *("tokens", "edits", "summary", "irreducible"),
    ]
    assert b'"summary":{"wanted":false,"cached":true}' in plan
