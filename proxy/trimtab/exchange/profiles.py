"""Profiles: a hint, a budget and shaping settings under one name, chosen with the header `x-trimtab-profile`."""

from __future__ import annotations

from typing import Any

import msgspec

from trimtab.context.policy import Hint, ShapingSettings
from trimtab.units import Tokens


class ProfileSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The table `[profiles.NAME]`. `budget` is in tokens; `shaping` overrides single keys of `[shaping]`."""

    hint: Hint | None = None
    budget: Tokens | None = None
    shaping: dict[str, Any] = {}

    def shaped(self, base: ShapingSettings) -> ShapingSettings:
        """The shaping that holds under this profile. Raises msgspec.ValidationError for a wrong key or value."""
        return msgspec.convert({**msgspec.structs.asdict(base), **self.shaping}, ShapingSettings)


def _cut(chars: int, hint: Hint) -> ProfileSettings:
    return ProfileSettings(hint=hint, shaping={"max_message_chars": chars, "truncate": "always"})


# The three steps of a plan-and-execute agent: planning reads everything within a modest budget, analysing reads
# one source at a time, replanning only skims what each step gave.
PROFILES: dict[str, ProfileSettings] = {
    "planner_input": ProfileSettings(hint="planner_input", budget=16_000),
    "analysis": _cut(10_000, "step_dependency"),
    "replan": _cut(500, "step_dependency"),
}
