"""Which policy holds for a request: the configuration, the profile and hint its headers name, and what its
`context_management` asks for.

A profile is a hint, a budget and shaping settings under one name, chosen with the header `x-trimtab-profile`.

`context_management` has Anthropic's vocabulary of context editing (`clear_tool_uses_20250919`), defaults included:
trigger at 100,000 input tokens, keep 3 tool uses. A null counts as absent: clients made from a typed model write
every field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Raw

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


def _cut(chars: int, hint: Hint) -> ProfileSettings:
    return ProfileSettings(hint=hint, shaping={"max_message_chars": chars, "truncate": "always"})


# The three steps of a plan-and-execute agent: planning reads everything within a modest budget, analysing reads
# one source at a time, replanning only skims what each step gave.
PROFILES: dict[str, ProfileSettings] = {
    "planner_input": ProfileSettings(hint="planner_input", budget=16_000),
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


CLEAR_TOOL_USES = "clear_tool_uses_20250919"


class _Amount(msgspec.Struct, frozen=True):
    value: int
    type: Literal["input_tokens", "tool_uses"]


_TRIGGER, _KEEP = _Amount(100_000, "input_tokens"), _Amount(3, "tool_uses")


class _ClearToolUses(msgspec.Struct, forbid_unknown_fields=True):
    type: Literal["clear_tool_uses_20250919"]
    trigger: _Amount | None = None
    keep: _Amount | None = None
    clear_at_least: _Amount | None = None
    exclude_tools: tuple[str, ...] | None = None
    clear_tool_inputs: bool | tuple[str, ...] | None = None


class _Management(msgspec.Struct):
    edits: list[_ClearToolUses]


def is_ours(raw: Raw | None) -> bool:
    """Whether a `context_management` field is in the vocabulary handled here; any other is the upstream's."""
    if raw is None or b'"edits"' not in bytes(raw):
        return False
    value = msgspec.json.decode(raw)
    return isinstance(value, dict) and "edits" in value


def managed(policy: Policy, raw: Raw) -> Policy:
    """The policy with what `context_management` asks for. Raises InvalidRequest with the place of what is wrong."""
    try:
        edits = msgspec.json.decode(raw, type=_Management).edits
    except msgspec.DecodeError as error:
        raise InvalidRequest(
            f"context_management: {error}. The one known edit is {CLEAR_TOOL_USES}.", param="context_management"
        ) from error
    for edit in edits:
        trigger, keep = edit.trigger or _TRIGGER, edit.keep or _KEEP
        by_tokens = trigger.type == "input_tokens"
        policy = msgspec.structs.replace(
            policy,
            managed=True,
            trigger_tokens=max(1, trigger.value) if by_tokens else None,
            trigger_tool_uses=None if by_tokens else max(0, trigger.value),
            keep_tool_uses=max(0, keep.value),
            clear_at_least=max(0, edit.clear_at_least.value) if edit.clear_at_least else 0,
            exclude_tools=edit.exclude_tools or (),
            clear_inputs=edit.clear_tool_inputs or False,
        )
    return policy
