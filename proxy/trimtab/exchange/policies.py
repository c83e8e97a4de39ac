"""Which policy holds for a request: the configuration, and the profile and hint its headers name. What its
`context_management` asks for comes on top (`management`).

A profile is a hint, a budget and shaping settings under one name, chosen with the header `x-trimtab-profile`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from trimtab.context.policy import HINTS, Hint, Policy, ShapingSettings
from trimtab.errors import InvalidRequest
from trimtab.summaries.settings import CompactionSettings
from trimtab.units import Tokens


class ProfileSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The table `[profiles.NAME]`. `budget` is in tokens; `shaping` overrides single keys of `[shaping]`."""

    hint: Hint | None = None
    budget: Tokens | None = None
    shaping: dict[str, Any] = {}

    def shaped(self, base: ShapingSettings) -> ShapingSettings:
        """The shaping that holds under this profile. Raises msgspec.ValidationError for a wrong key or value."""
        return msgspec.convert({**msgspec.structs.asdict(base), **self.shaping}, ShapingSettings)


# Such a step is often one message that was put together: what it works on, and at its end what is to be done.
_ONE_MESSAGE = {"cut_context": "guessed"}


def _cut(chars: int, hint: Hint) -> ProfileSettings:
    return ProfileSettings(hint=hint, shaping={**_ONE_MESSAGE, "max_message_chars": chars, "truncate": "always"})


# The three steps of a plan-and-execute agent: planning reads everything within a modest budget, analysing reads
# one source at a time, replanning only skims what each step gave.
PROFILES: dict[str, ProfileSettings] = {
    "planner_input": ProfileSettings(hint="planner_input", budget=16_000, shaping=_ONE_MESSAGE),
    "analysis": _cut(10_000, "step_dependency"),
    "replan": _cut(500, "step_dependency"),
}


class Chosen(msgspec.Struct, frozen=True):
    """A policy and what it was made from; `budget` is the profile's cap in tokens."""

    policy: Policy
    hint: Hint
    profile: str = ""
    budget: int | None = None


class Policies:
    """All policies of a configuration, each made when first chosen; then a lookup is a dictionary hit."""

    def __init__(
        self, shaping: ShapingSettings, profiles: Mapping[str, ProfileSettings], compaction: CompactionSettings | None
    ) -> None:
        self._profiles = {"": ProfileSettings(), **profiles}
        self._shaping = {name: profile.shaped(shaping) for name, profile in self._profiles.items()}
        self._compaction = compaction
        self._made: dict[tuple[str, str, bool], Chosen] = {}

    def choose(self, profile: str, hint: str, has_tools: bool, strict_roles: bool) -> Chosen:
        """The policy for a request: what its headers name, else what its profile or its tools suggest. Raises
        InvalidRequest for an unknown profile or hint."""
        if profile not in self._profiles:
            names = ", ".join(sorted(filter(None, self._profiles)))
            raise InvalidRequest(f"Unknown profile in x-trimtab-profile. Known: {names}.")
        wanted = hint or self._profiles[profile].hint or ("react_iteration" if has_tools else "general")
        if wanted not in HINTS:
            raise InvalidRequest(f"Unknown hint in x-trimtab-hint. Known: {', '.join(HINTS)}.")
        key = (profile, wanted, strict_roles)
        if key not in self._made:
            self._made[key] = self._make(profile, wanted, strict_roles)
        return self._made[key]

    def _make(self, profile: str, hint: Hint, strict_roles: bool) -> Chosen:
        compaction = self._compaction
        policy = Policy(shaping=self._shaping[profile], hint=hint, strict_roles=strict_roles)
        if compaction is not None:
            policy = msgspec.structs.replace(
                policy,
                compaction=True,
                summary_tokens=compaction.max_summary_tokens,
                precompact_share=compaction.precompact_share,
            )
        return Chosen(policy, hint, profile, self._profiles[profile].budget)
