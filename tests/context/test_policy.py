"""The settings of shaping, as they are decoded, and what a request adds to them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from trimtab.context.policy import Policy, ShapingSettings

REFUSED: list[dict[str, Any]] = [
    {"target": 1.1},
    {"target": -0.1},
    {"keep_share": 2},
    {"pin_share": "half"},
    {"max_message_chars": 0},
    {"clear_batch": 0},
    {"max_messages": 0},
    {"keep_recent": -1},
    {"truncate": "never"},
    {"mode": "on"},
    {"no_such_key": 1},
]


@pytest.mark.parametrize("values", REFUSED, ids=str)
def test_what_makes_no_sense_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(values, ShapingSettings)


def test_shares_reach_from_nothing_to_all() -> None:
    made = msgspec.convert({"target": 0, "keep_share": 1, "pin_share": 1.0}, ShapingSettings)
    assert (made.target, made.keep_share, made.pin_share) == (0, 1, 1)


def test_tools_excluded_by_the_operator_and_by_the_request_add_up() -> None:
    policy = Policy(ShapingSettings(exclude_tools=("a",)), exclude_tools=("b",))
    assert policy.excluded == {"a", "b"}


def test_policies_are_values() -> None:
    assert Policy() == Policy()
    assert hash(Policy()) == hash(Policy())
