"""Profiles: what they change of the shaping, and what they must not."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from trimtab.context.policy import HINTS, Hint, ShapingSettings
from trimtab.exchange.profiles import PROFILES, ProfileSettings

BASE = ShapingSettings(target=0.4, exclude_tools=("bash",), max_messages=9)


def test_a_profile_changes_only_the_keys_it_names() -> None:
    shaped = ProfileSettings(shaping={"target": 0.3, "truncate": "always"}).shaped(BASE)
    assert shaped == msgspec.structs.replace(BASE, target=0.3, truncate="always")
    assert ProfileSettings().shaped(BASE) == BASE


@pytest.mark.parametrize(
    ("shaping", "said"),
    [
        ({"tarrget": 0.5}, "tarrget"),
        ({"target": "half"}, r"target"),
        ({"target": 1.5}, r"target"),
        ({"mode": "off"}, r"mode"),
        ({"clear_batch": 0}, r"clear_batch"),
    ],
)
def test_a_wrong_key_or_value_is_refused_with_its_place(shaping: dict[str, Any], said: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=said):
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
