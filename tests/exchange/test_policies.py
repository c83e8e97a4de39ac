"""Which policy holds: configuration, profile, hint, and what `context_management` asks for."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest
from msgspec import Raw

from trimtab.context.policy import HINTS, Hint, Policy, ShapingSettings
from trimtab.errors import InvalidRequest
from trimtab.exchange.policies import CLEAR_TOOL_USES, PROFILES, Policies, ProfileSettings, is_ours, managed
from trimtab.summaries.settings import CompactionSettings

SUMMARIES = CompactionSettings(max_summary_tokens=900, precompact_share=0.6)
POLICIES = Policies(ShapingSettings(target=0.4), {**PROFILES, "own": ProfileSettings(budget=5)}, SUMMARIES)

CHOICES: list[tuple[str, str, bool, str, int | None]] = [
    # profile, hint header, tools → hint, budget
    ("", "", True, "react_iteration", None),
    ("", "", False, "general", None),
    ("", "planner_input", True, "planner_input", None),
    ("planner_input", "", True, "planner_input", 16_000),
    ("planner_input", "general", True, "general", 16_000),
    ("own", "", True, "react_iteration", 5),
]


@pytest.mark.parametrize(("profile", "hint", "tools", "holds", "budget"), CHOICES)
def test_the_header_beats_the_profile_and_the_profile_what_the_request_is(
    profile: str, hint: str, tools: bool, holds: str, budget: int | None
) -> None:
    chosen = POLICIES.choose(profile, hint, tools, False)
    assert (chosen.hint, chosen.policy.hint, chosen.budget, chosen.profile) == (holds, holds, budget, profile)


def test_shaping_of_the_file_and_of_the_profile_both_hold() -> None:
    assert POLICIES.choose("", "", False, False).policy.shaping == ShapingSettings(target=0.4)
    cut = POLICIES.choose("replan", "", False, False).policy.shaping
    assert (cut.target, cut.max_message_chars, cut.truncate) == (0.4, 500, "always")


def test_only_with_a_summary_model_a_policy_wants_summaries_and_knows_their_sizes() -> None:
    policy = POLICIES.choose("", "", False, True).policy
    assert (policy.compaction, policy.summary_tokens, policy.precompact_share) == (True, 900, 0.6)
    assert policy.strict_roles
    without = Policies(ShapingSettings(), {}, None).choose("", "", False, False).policy
    assert not without.compaction
    assert not without.strict_roles


@pytest.mark.parametrize(
    ("profile", "hint", "named"),
    [("nope", "", ["analysis", "own", "planner_input", "replan"]), ("", "nope", ["react_iteration", "general"])],
)
def test_an_unknown_name_is_answered_with_the_known_ones(profile: str, hint: str, named: list[str]) -> None:
    with pytest.raises(InvalidRequest) as refused:
        POLICIES.choose(profile, hint, False, False)
    assert all(name in refused.value.message for name in named)
    assert "nope" not in refused.value.message


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
    policy = managed(Policy(), raw({"edits": [{**EDIT, **asked}]}))
    assert policy.managed
    assert {name: getattr(policy, name) for name in holds} == holds


def test_an_empty_list_of_edits_asks_for_nothing() -> None:
    assert managed(Policy(), raw({"edits": []})) == Policy()


@pytest.mark.parametrize(
    ("edits", "place"),
    [
        (5, r"\$\.edits"),
        ([{"type": "clear_thinking_20251015"}], r"\$\.edits\[0\]\.type"),
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


# -- profiles ----------------------------------------------------------------------------------------------------

BASE = ShapingSettings(target=0.4, exclude_tools=("bash",), max_messages=9)


def test_a_profile_changes_only_the_keys_it_names() -> None:
    shaped = ProfileSettings(shaping={"target": 0.3, "truncate": "always"}).shaped(BASE)
    assert shaped == msgspec.structs.replace(BASE, target=0.3, truncate="always")
    assert ProfileSettings().shaped(BASE) == BASE


@pytest.mark.parametrize(
    ("shaping", "named_in"),
    [
        ({"tarrget": 0.5}, "tarrget"),
        ({"target": "half"}, r"target"),
        ({"target": 1.5}, r"target"),
        ({"mode": "off"}, r"mode"),
        ({"clear_batch": 0}, r"clear_batch"),
    ],
)
def test_a_wrong_key_or_value_is_refused_with_its_place(shaping: dict[str, Any], named_in: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=named_in):
        ProfileSettings(shaping=shaping).shaped(BASE)


@pytest.mark.parametrize(
    ("name", "hint", "budget", "chars"),
    [
        ("planner_input", "planner_input", 16_000, 50_000),
        ("analysis", "step_dependency", None, 10_000),
        ("replan", "step_dependency", None, 500),
    ],
)
def test_the_built_in_profiles(name: str, hint: str, budget: int | None, chars: int) -> None:
    profile = PROFILES[name]
    assert (profile.hint, profile.budget) == (hint, budget)
    assert profile.shaped(ShapingSettings()).max_message_chars == chars


def test_the_list_of_hints_is_the_type() -> None:
    assert get_args(Hint) == HINTS
