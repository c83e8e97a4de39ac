"""What the planner has to go by: the settings of `[shaping]`, and a policy, which is these settings and what one
request asks for.

Shares are shares of the budget. A plan is a pure function of history, policy and budget, so every field is a plain
value.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from trimtab.units import Count, CountOrZero, Share

Hint = Literal["react_iteration", "planner_input", "step_dependency", "general"]
"""Which prompt a summary is written with."""

HINTS: Final[tuple[Hint, ...]] = ("react_iteration", "planner_input", "step_dependency", "general")
"""All hints."""


class ShapingSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[shaping]`. Defaults were chosen by measurement; docs/policy.md has the figures."""

    max_message_chars: Count = 50_000  # characters of text in one message
    truncate: Literal["when_over", "always"] = "when_over"
    cut_context: Literal["marked", "guessed"] = "marked"  # inside a user message: where the client did not mark it too
    clear_batch: Count = 2  # tool results cleared at a time
    keep_share: Share = 0.25  # the newest tool results within this share are never cleared
    target: Share = 0.5  # low-water mark: how far down shaping goes, as a share of the room above what must stay
    pin_share: Share = 0.5  # the most that pinned messages may take
    keep_recent: CountOrZero = 4  # newest messages that dropping and summarizing leave alone
    segment_share: Share = 0.15  # size of one segment
    extract_share: Share = 0.4  # the most that the extract of removed messages takes of the room above what must stay
    result_extract: CountOrZero = 80  # tokens: the most that is kept of a cleared tool result
    exclude_tools: tuple[str, ...] = ()  # tools whose results are never cleared
    announce: bool = False  # tell the model of requests with tools about clearing, in one sentence
    mode: Literal["enforce", "observe"] = "enforce"  # observe: plan and report, send untouched
    max_messages: Count | None = None  # a plain window: the newest messages only
    summarize_after_messages: Count | None = None  # compact when the history is longer than this


class Policy(msgspec.Struct, frozen=True):
    """The shaping settings that hold for one request. Fields from `trigger_tokens` on come from the request's
    `context_management`, in the vocabulary of its edit `clear_tool_uses_20250919`."""

    shaping: ShapingSettings = ShapingSettings()
    compaction: bool = False  # a summary may stand for what is removed
    summary_tokens: int = 2_000  # the size a summary is counted at
    precompact_share: float = 0.8  # share of the budget from which the next summary is made ahead of need
    hint: Hint = "general"
    binds_thinking: bool = False  # the upstream checks that nothing before a thinking part has changed
    strict_roles: bool = False  # the upstream's template takes one system message and alternating roles
    needs_json_word: bool = False  # the request is refused unless the word "json" is in one of its messages
    announced_beside: int = 0  # tokens of the announcement, where the system prompt is not one of the messages
    trigger_tokens: int | None = None  # clear above this size of the request
    trigger_tool_uses: int | None = None  # clear above this number of tool results
    keep_tool_uses: int | None = None  # the newest tool results that stay, in place of `keep_share`
    clear_at_least: int = 0  # tokens; clear nothing when less can be freed
    clear_inputs: bool | tuple[str, ...] = False  # clear the arguments of calls too: of all tools, or of these
    exclude_tools: tuple[str, ...] = ()  # more tools whose results are never cleared
    managed: bool = False  # the request asked for clearing by `context_management`

    @property
    def excluded(self) -> frozenset[str]:
        """Tools whose results are never cleared, by settings or request."""
        return frozenset(self.shaping.exclude_tools) | frozenset(self.exclude_tools)
