"""Which policy holds: configuration, profile and hint."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from trimtab.context.policy import HINTS, Hint, ShapingSettings
from trimtab.errors import InvalidRequest
from trimtab.exchange.policies import PROFILES, Policies, ProfileSettings
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
