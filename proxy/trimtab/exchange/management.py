"""What the field `context_management` of a chat asks for, in Anthropic's vocabulary, defaults included.

    clear_tool_uses_20250919   performed: old tool results are cleared, above 100,000 input tokens but for 3 tool uses
    compact_20260112           in its meaning: what is sent stays within the trigger, 150,000 input tokens, and what
                               goes is summarized where a summary model is configured
    any other                  ignored, and named in the answer

A null counts as absent: clients made from a typed model write every field. An edit that is ignored never fails a
request: clients send the same edits to several providers, of which each performs its own.
"""

from __future__ import annotations

from typing import Literal, TypeVar

import msgspec
from msgspec import Raw

from trimtab.context.policy import Policy
from trimtab.errors import InvalidRequest

CLEAR_TOOL_USES = "clear_tool_uses_20250919"
COMPACT = "compact_20260112"
_LONGEST, _MOST = 64, 16  # characters of the name of an ignored edit, and such edits, that an answer repeats


T = TypeVar("T")


class _Amount(msgspec.Struct, frozen=True):
    value: int
    type: Literal["input_tokens", "tool_uses"]


class _Tokens(msgspec.Struct, frozen=True):
    value: int
    type: Literal["input_tokens"]


_TRIGGER, _KEEP = _Amount(100_000, "input_tokens"), _Amount(3, "tool_uses")
_COMPACT_AT = _Tokens(150_000, "input_tokens")


class _Edit(msgspec.Struct):
    type: str


class _ClearToolUses(msgspec.Struct, forbid_unknown_fields=True):
    type: Literal["clear_tool_uses_20250919"]
    trigger: _Amount | None = None
    keep: _Amount | None = None
    clear_at_least: _Amount | None = None
    exclude_tools: tuple[str, ...] | None = None
    clear_tool_inputs: bool | tuple[str, ...] | None = None


class _Compact(msgspec.Struct):
    trigger: _Tokens | None = None


class _Field(msgspec.Struct):
    edits: list[Raw]


class Management(msgspec.Struct, frozen=True):
    """What a request asks for. `budget`: the most tokens that are sent; `ignored`: names of edits of no effect here."""

    policy: Policy
    budget: int | None = None
    ignored: tuple[str, ...] = ()

    def least(self, budget: int | None) -> int | None:
        """The smaller of its budget and another, in tokens; None where neither bounds anything."""
        return min((n for n in (self.budget, budget) if n is not None), default=None)


def is_ours(raw: Raw | None) -> bool:
    """Whether a `context_management` field is in the vocabulary handled here; any other is the upstream's."""
    if raw is None or b'"edits"' not in bytes(raw):
        return False
    value = msgspec.json.decode(raw)
    return isinstance(value, dict) and "edits" in value


def managed(policy: Policy, raw: Raw) -> Management:
    """The policy with what a field that is ours asks for. Raises InvalidRequest with the place of what is wrong."""
    budget: int | None = None
    ignored: list[str] = []
    for at, edit in enumerate(_read(_Field, raw).edits):
        place = f"$.edits[{at}]"
        kind = _read(_Edit, edit, place).type
        if kind == CLEAR_TOOL_USES:
            policy = _clearing(policy, _read(_ClearToolUses, edit, place))
        elif kind == COMPACT:
            trigger = (_read(_Compact, edit, place).trigger or _COMPACT_AT).value
            budget = max(1, trigger if budget is None else min(budget, trigger))
        elif len(ignored) < _MOST:
            ignored.append(kind[:_LONGEST])
    return Management(policy, budget, tuple(ignored))


def _clearing(policy: Policy, edit: _ClearToolUses) -> Policy:
    trigger, keep = edit.trigger or _TRIGGER, edit.keep or _KEEP
    by_tokens = trigger.type == "input_tokens"
    return msgspec.structs.replace(
        policy,
        managed=True,
        trigger_tokens=max(1, trigger.value) if by_tokens else None,
        trigger_tool_uses=None if by_tokens else max(0, trigger.value),
        keep_tool_uses=max(0, keep.value),
        clear_at_least=max(0, edit.clear_at_least.value) if edit.clear_at_least else 0,
        exclude_tools=edit.exclude_tools or (),
        clear_inputs=edit.clear_tool_inputs or False,
    )


def _read(kind: type[T], raw: Raw, place: str = "$") -> T:
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        text = str(error).replace("`$", f"`{place}") if "`$" in str(error) else f"{error} - at `{place}`"
        known = f"Edits performed here: {CLEAR_TOOL_USES}, {COMPACT}."
        raise InvalidRequest(f"context_management: {text}. {known}", param="context_management") from error
