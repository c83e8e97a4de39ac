"""What `context_management` asks for: edits that are performed, one that bounds what is sent, and others, which never
fail a request."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from trimtab.context.policy import Policy
from trimtab.errors import InvalidRequest
from trimtab.exchange.management import CLEAR_TOOL_USES, COMPACT, Management, is_ours, managed


def raw(value: Any) -> Raw:
    return Raw(msgspec.json.encode(value))


@pytest.mark.parametrize(
    ("field", "ours"),
    [
        (None, False),
        (raw({"edits": []}), True),
        (raw({"edits": 5}), True),
        (raw({"strategy": "edits"}), False),
        (raw([{"type": "compaction", "edits": []}]), False),
        (raw("edits"), False),
    ],
)
def test_only_our_vocabulary_of_the_field_is_answered_here(field: Raw | None, ours: bool) -> None:
    assert is_ours(field) is ours


EDIT = {"type": CLEAR_TOOL_USES}
ASKED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"trigger_tokens": 100_000, "trigger_tool_uses": None, "keep_tool_uses": 3, "clear_at_least": 0}),
    ({"trigger": {"type": "tool_uses", "value": 7}}, {"trigger_tokens": None, "trigger_tool_uses": 7}),
    ({"trigger": {"type": "input_tokens", "value": 0}}, {"trigger_tokens": 1}),
    ({"keep": {"type": "tool_uses", "value": 0}}, {"keep_tool_uses": 0}),
    ({"keep": {"type": "tool_uses", "value": -2}}, {"keep_tool_uses": 0}),
    ({"clear_at_least": {"type": "input_tokens", "value": 500}}, {"clear_at_least": 500}),
    ({"exclude_tools": ["bash"]}, {"exclude_tools": ("bash",)}),
    ({"clear_tool_inputs": True}, {"clear_inputs": True}),
    ({"clear_tool_inputs": ["bash"]}, {"clear_inputs": ("bash",)}),
    (dict.fromkeys(("trigger", "keep")), {"trigger_tokens": 100_000, "trigger_tool_uses": None, "keep_tool_uses": 3}),
    (
        dict.fromkeys(("clear_at_least", "exclude_tools", "clear_tool_inputs")),
        {"clear_at_least": 0, "exclude_tools": (), "clear_inputs": False},
    ),
]


@pytest.mark.parametrize(("asked", "holds"), ASKED)
def test_what_the_field_asks_for_becomes_policy(asked: dict[str, Any], holds: dict[str, Any]) -> None:
    policy = managed(Policy(), raw({"edits": [{**EDIT, **asked}]})).policy
    assert policy.managed
    assert {name: getattr(policy, name) for name in holds} == holds


def test_an_empty_list_of_edits_asks_for_nothing() -> None:
    assert managed(Policy(), raw({"edits": []})) == Management(Policy())


@pytest.mark.parametrize(
    ("edits", "place"),
    [
        (5, r"\$\.edits"),
        ([5], r"\$\.edits\[0\]"),
        ([{"type": 5}], r"\$\.edits\[0\]\.type"),
        ([{"type": COMPACT, "trigger": {"type": "tool_uses", "value": 5}}], r"\$\.edits\[0\]\.trigger"),
        ([EDIT, {**EDIT, "kep": 1}], r"kep.*\$\.edits\[1\]"),
        ([{**EDIT, "trigger": 5}], r"\$\.edits\[0\]\.trigger"),
        ([{**EDIT, "keep": {"type": "weeks", "value": 1}}], r"\$\.edits\[0\]\.keep"),
    ],
)
def test_what_is_wrong_in_the_field_is_refused_with_its_place(edits: Any, place: str) -> None:
    with pytest.raises(InvalidRequest, match=place) as refused:
        managed(Policy(), raw({"edits": edits}))
    assert refused.value.param == "context_management"
    assert CLEAR_TOOL_USES in refused.value.message


THINKING = {"type": "clear_thinking_20251015", "keep": "all"}


def test_an_edit_that_is_not_performed_is_named_and_fails_nothing() -> None:
    found = managed(Policy(), raw({"edits": [THINKING, EDIT, {"type": "x" * 500}]}))
    assert found.ignored == ("clear_thinking_20251015", "x" * 64)
    assert found.policy == managed(Policy(), raw({"edits": [EDIT]})).policy


@pytest.mark.parametrize(
    ("trigger", "budget"),
    [(None, 150_000), ({"type": "input_tokens", "value": 60_000}, 60_000), ({"type": "input_tokens", "value": -1}, 1)],
)
def test_compaction_bounds_what_is_sent(trigger: Any, budget: int) -> None:
    found = managed(Policy(), raw({"edits": [{"type": COMPACT, "trigger": trigger, "instructions": "Keep names."}]}))
    assert (found.budget, found.policy, found.ignored) == (budget, Policy(), ())
    assert [found.least(other) for other in (None, 1, 10**9)] == [budget, 1, budget]
