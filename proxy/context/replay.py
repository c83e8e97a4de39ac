"""The state of a replay: what would have been sent, as far as the history has been walked.

Every prefix of a history that ends before an assistant message once was a request. The planner walks the history
once and at each such boundary does what it would have done then; this is the state it carries. Frontiers only move
forward, a message that is gone stays gone, and nothing here knows a clock, so the walk is a pure function of history,
policy and budget, and two replicas that never met send the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Raw

from proxy.context.edits import Edit, Segment, Stage
from proxy.context.policy import Policy
from proxy.context.rewrite import rewrite
from proxy.context.texts import NOTE
from proxy.context.tokens import text_tokens
from proxy.context.turns import SYSTEM_ROLES, Unit, units
from proxy.context.views import MESSAGE_OVERHEAD, Memo, View

NOTE_TOKENS = text_tokens(NOTE) + MESSAGE_OVERHEAD


class State:
    """Mutable only inside one replay. Sizes are estimated tokens; `end` is the boundary the walk stands at."""

    def __init__(
        self, raws: Sequence[bytes | Raw], views: Sequence[View], fixed: int, policy: Policy, budget: int, memo: Memo
    ) -> None:
        self.raws, self.views, self.policy, self.memo = raws, views, policy, memo
        self.budget = budget
        self.target = int(budget * policy.shaping.target)
        self.clear_trigger = min(budget, policy.trigger_tokens or budget)
        self.units: list[Unit] = units(views)
        self.unit_of = [i for i, unit in enumerate(self.units) for _ in range(unit.start, unit.stop)]
        self.size = fixed
        self.sent = [view.tokens for view in views]
        self.edits: dict[int, Edit] = {}
        self.gone = bytearray(len(views))
        self.end = 0
        self.kept = 0  # messages of the walk so far that are still sent, system messages apart
        self.frontier = 0  # units before it have gone, but for pins
        self.held: int | None = None  # the question of the turn the frontier stands in
        self.gap_tokens = 0
        self.segments: list[Segment] = []
        self.summarized = 0  # segments whose summary stands in the gap
        self.results: list[int] = []
        self.cleared = 0  # results already considered for clearing
        self.uncut: list[int] = []  # oversized messages not truncated yet
        self.users: list[int] = []
        self.run: list[int] = []  # user messages of the run that is going on: its question and what came in between
        self.marked: list[int] = []
        self.home = next((i for i, unit in enumerate(self.units) if unit.role not in SYSTEM_ROLES), len(self.units))
        self.frontier = self.home

    # -- walking -------------------------------------------------------------------------------------------------

    def advance(self, end: int) -> None:
        """Take in the messages up to `end`."""
        for i in range(self.end, end):
            self._take(i, self.views[i])
        self.end = end

    def _take(self, i: int, view: View) -> None:
        self.size += view.tokens
        self.kept += view.role not in SYSTEM_ROLES
        if view.role == "user":
            injected = i and (self.views[i - 1].is_result or self.views[i - 1].role == "user")
            self.run = [*self.run, i] if injected else [i]
            self.users.append(i)
        elif view.is_result:
            self.results.append(i)
        if view.pinned:
            self.marked.append(i)
        if view.chars > self.policy.shaping.max_message_chars:
            self.uncut.append(i)
        home = self.units[self.unit_of[i]].start
        if home < i and self.gone[home]:  # a late result of a call that has gone goes with it
            self.drop(self.unit_of[i], self.edits[home].stage, "its tool call was removed")

    @property
    def question(self) -> int | None:
        """Index of the newest user message so far."""
        return self.users[-1] if self.users else None

    @property
    def over(self) -> bool:
        return self.size > self.budget

    @property
    def uncleared(self) -> int:
        """Tool results not considered for clearing yet."""
        return len(self.results) - self.cleared

    @property
    def pressed(self) -> bool:
        """Whether anything has to be done at this boundary: too many tokens, messages or tool results."""
        shaping, uses = self.policy.shaping, self.policy.trigger_tool_uses
        return (
            self.size > self.clear_trigger
            or (shaping.max_messages is not None and self.kept > shaping.max_messages)
            or (shaping.summarize_after_messages is not None and self.kept > shaping.summarize_after_messages)
            or (uses is not None and self.uncleared > uses)
        )

    def tool_of(self, result: int) -> str:
        """Name of the tool whose result this is."""
        home = self.units[self.unit_of[result]].start
        return next((c.name for c in self.views[home].calls if c.id == self.views[result].answers), "")

    # -- what must stay ------------------------------------------------------------------------------------------

    def pins(self) -> set[int]:
        """Units that stay as things stand at this boundary: the task, the run's user messages, what the client
        marked. Over `pin_share` the oldest lose their pin first; the current question never does."""
        found = {self.unit_of[i] for i in [*self.users[:1], *self.run, *self.marked]}
        ordered = sorted(u for u in found if not self.gone[self.units[u].start])
        question = self.question
        current = None if question is None else self.unit_of[question]
        total = sum(self.unit_size(u) for u in ordered)
        cap = self.budget * self.policy.shaping.pin_share
        pinned = set(ordered)
        for u in ordered:
            if total <= cap:
                break
            if u != current:
                pinned.discard(u)
                total -= self.unit_size(u)
        return pinned

    def unit_size(self, u: int) -> int:
        unit = self.units[u]
        return sum(self.sent[i] for i in range(unit.start, min(unit.stop, self.end)) if not self.gone[i])

    def irreducible(self, i: int) -> bool:
        """System messages and the current question reach the model unchanged, or the request is refused."""
        return self.views[i].role in SYSTEM_ROLES or i == self.question

    # -- changing ------------------------------------------------------------------------------------------------

    def edit(self, i: int, stage: Stage, tokens: int, reason: str, amount: int = 0) -> None:
        """Put one edit on message i; a later edit takes the place of an earlier one."""
        self.size += tokens - self.sent[i]
        self.sent[i] = tokens
        self.edits[i] = Edit(stage, i, self.views[i].tokens, tokens, reason, amount)

    def drop(self, u: int, stage: Stage, reason: str) -> None:
        """Take a unit out, as far as it has been walked; the first one to go leaves the note in its place."""
        unit = self.units[u]
        for i in range(unit.start, min(unit.stop, max(self.end, unit.start + 1))):
            if not self.gone[i]:
                self.edit(i, stage, 0, reason)
                self.gone[i] = 1
                self.kept -= self.views[i].role not in SYSTEM_ROLES
        self.mark_gap(NOTE_TOKENS)

    def mark_gap(self, tokens: int) -> None:
        """Count what stands in the gap: the note, or the larger summary that takes its place."""
        if tokens > self.gap_tokens:
            self.size += tokens - self.gap_tokens
            self.gap_tokens = tokens

    def measure(self, i: int, stage: Stage, amount: int) -> int:
        """Tokens message i would have after an edit, by making it; remembered like a view."""
        data = bytes(self.raws[i])
        key = (hash(data), len(data), stage, amount)
        tokens: int | None = self.memo.get(key)
        if tokens is None:
            tokens = self.memo.view(rewrite(data, stage, amount)).tokens
            self.memo.put(key, tokens)
        return tokens
