"""What the planner is told to do. Settings come from `[shaping]`; a policy is settings plus what one request says.

All shares are shares of the usable budget. A plan is a pure function of (history, policy, budget), so every field
here is a plain value.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from trimtab.units import Count, CountOrZero, Share

Hint = Literal["react_iteration", "planner_input", "step_dependency", "general"]
HINTS: Final[tuple[Hint, ...]] = ("react_iteration", "planner_input", "step_dependency", "general")


class ShapingSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[shaping]`. Defaults were chosen by measurement; docs/policy.md has the figures."""

    max_message_chars: Count = 50_000  # characters of text in one message
    truncate: Literal["when_over", "always"] = "when_over"
    clear_batch: Count = 2  # tool results cleared at a time
    keep_share: Share = 0.25  # the newest tool results within this share are never cleared
    target: Share = 0.5  # low-water mark: how far down shaping goes once it has to
    pin_share: Share = 0.5  # the most that pinned messages may take
    keep_recent: CountOrZero = 4  # newest messages that dropping and summarizing leave alone
    segment_share: Share = 0.15  # size of one summarized segment
    exclude_tools: tuple[str, ...] = ()  # tools whose results are never cleared
    announce: bool = False
    mode: Literal["enforce", "observe"] = "enforce"
    max_messages: Count | None = None  # a plain window: the newest messages only
    summarize_after_messages: Count | None = None  # compact when the history is longer than this


class Policy(msgspec.Struct, frozen=True):
    """What holds for one request. The fields below `shaping` come from the request's `context_management`."""

    shaping: ShapingSettings = ShapingSettings()
    compaction: bool = False  # whether a summary may stand for what is dropped
    summary_tokens: int = 2_000  # the size a summary is counted at
    precompact_share: float = 0.8  # share of the budget from which the next summary is made ahead of need
    hint: Hint = "general"
    strict_roles: bool = False  # the upstream's template takes one system message and alternating roles
    trigger_tokens: int | None = None
    trigger_tool_uses: int | None = None
    keep_tool_uses: int | None = None
    clear_at_least: int = 0
    clear_inputs: bool | tuple[str, ...] = False
    exclude_tools: tuple[str, ...] = ()
    managed: bool = False  # the request asked for clearing by `context_management`

    @property
    def excluded(self) -> frozenset[str]:
        return frozenset(self.shaping.exclude_tools) | frozenset(self.exclude_tools)
