"""The state of a replay: what would have been sent, as far as the history has been walked.

Every prefix of a history that ends before an assistant message once was a request. The planner walks the history
once and at each such boundary does what it would have done then; this is the state it carries. Frontiers only move
forward, a message that is gone stays gone, and nothing here knows a clock, so the walk is a pure function of history,
policy and budget, and two replicas that never met send the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Raw

from trimtab.context.apply.rewrite import rewrite
from trimtab.context.edits import Edit, Segment, Stage
from trimtab.context.estimate.tokens import text_tokens
from trimtab.context.policy import Policy
from trimtab.context.read.turns import SYSTEM_ROLES, homes, late_results, units
from trimtab.context.read.views import MESSAGE_OVERHEAD, Memo, View
from trimtab.context.texts import NOTE

NOTE_TOKENS = text_tokens(NOTE) + MESSAGE_OVERHEAD


class State:
    """Mutable only inside one replay. Sizes are estimated tokens; `end` is the boundary the walk stands at."""

    def __init__(
        self, raws: Sequence[bytes | Raw], views: Sequence[View], fixed: int, policy: Policy, budget: int, memo: Memo
    ) -> None:
        self.raws, self.views, self.policy, self.memo = raws, views, policy, memo
        self.budget = self.target = budget
        self.clear_trigger = min(budget, policy.trigger_tokens or budget)
        limits = (policy.shaping.max_messages, policy.shaping.summarize_after_messages)
        self.windows = [n for n in limits if n is not None]  # the limits in messages that hold
        self.most_kept = min(self.windows, default=len(views))
        self.home_of = homes(views)
        self.units = units(views, self.home_of)
        self.late = late_results(self.units, self.home_of)
        self.unit_of = [i for i, unit in enumerate(self.units) for _ in range(unit.start, unit.stop)]
        self.size = self.fixed = fixed  # `fixed`: tools, and from here on the system messages walked past
        self.sent = [view.tokens for view in views]
        self.edits: dict[int, Edit] = {}
        self.moved: Stage | None = None  # the first stage that changed something at this boundary
        self.gone = bytearray(len(views))
        self.end = 0
        self.kept = 0  # messages sent from the frontier on, system messages apart
        self.freed = 0  # tokens, before any edit, of all messages that are gone
        self._live: list[int] = []
        # The frontier of compaction: units before it have gone, but for those in `stayed` and the question `held`.
        self.home = next((i for i, unit in enumerate(self.units) if unit.role not in SYSTEM_ROLES), len(self.units))
        self.frontier = self.home
        self.held: int | None = None  # the question of the turn the frontier stands in
        self.stayed: list[int] = []  # units that were pinned when the frontier passed them
        self.bridges: dict[int, int] = {}  # where roles must alternate: question -> the answer kept before it
        self.gap_tokens = 0
        self.segments: list[Segment] = []
        self.summarized = 0  # segments passed by summarizing
        self.standing = 0  # segments whose summary stands in the gap; 0: the note stands there, if anything
        # The frontier of clearing.
        self.results: list[int] = []
        self.cleared = 0  # results already considered for clearing
        self.seen = 0  # results the model has answered to: one it never saw is not cleared
        self.foreseen = False  # the next overflow is tried out: by then the newest results are no longer that
        self.uncut: list[int] = []  # oversized messages not truncated yet
        self.users: list[int] = []
        self.run: list[int] = []  # user messages of the run that is going on: its question and what came in between
        self.marked: list[int] = []  # units the client pinned

    # -- walking -------------------------------------------------------------------------------------------------

    def advance(self, end: int) -> None:
        """Take in the messages up to `end`."""
        self.moved = None
        for i in range(self.end, end):
            self.end = i + 1
            self._take(i, self.views[i])

    def _take(self, i: int, view: View) -> None:
        self.size += view.tokens
        home = self.home_of[i]
        if view.role in SYSTEM_ROLES:
            self.fixed += view.tokens
        else:
            self.kept += 1
            self._live.append(i)
        if self.gone[home]:
            return self.remove(i, self.edits[home].stage, "its tool call was removed")
        if view.role == "user":
            self._take_user(i)
        elif view.role == "assistant":
            self.seen = len(self.results)
        elif view.is_result:
            self.results.append(i)
        if view.pinned:
            # A late result cannot stay without its call.
            self.marked += dict.fromkeys((self.unit_of[home], self.unit_of[i]))
        if view.chars > self.policy.shaping.max_message_chars:
            self.uncut.append(i)

    def _take_user(self, i: int) -> None:
        injected = i and (self.views[i - 1].is_result or self.views[i - 1].role == "user")
        if not injected:
            self.run = []
        self.run.append(i)
        self.users.append(i)

    @property
    def question(self) -> int | None:
        """Index of the newest user message so far."""
        return self.users[-1] if self.users else None

    @property
    def over(self) -> bool:
        return self.size > self.budget

    @property
    def walked(self) -> int:
        """Number of units walked. At a boundary all of them are complete."""
        return self.unit_of[self.end - 1] + 1 if self.end else 0

    @property
    def uncleared(self) -> int:
        """Tool results not considered for clearing yet."""
        return len(self.results) - self.cleared

    @property
    def spared(self) -> int:
        """Position in `results` of the first that is never cleared: the newest, and what the model has not seen."""
        return len(self.results) if self.foreseen else min(self.seen, len(self.results) - 1)

    @property
    def pressed(self) -> bool:
        """Whether anything has to be done at this boundary: too many tokens, messages or tool results."""
        uses = self.policy.trigger_tool_uses
        return (
            self.size > self.clear_trigger or self.kept > self.most_kept or (uses is not None and self.uncleared > uses)
        )

    def live(self) -> list[int]:
        """Messages walked and not gone, system messages apart. Its cost is what is left, not what was."""
        self._live = [i for i in self._live if not self.gone[i]]
        return self._live

    def tool_of(self, result: int) -> str:
        """Name of the tool whose result this is."""
        calls = self.views[self.home_of[result]].calls
        return next((c.name for c in calls if c.id == self.views[result].answers), "")

    # -- what must stay ------------------------------------------------------------------------------------------

    def pins(self) -> set[int]:
        """Units that stay as things stand at this boundary: the task, the run's user messages, what the client
        marked. Over `pin_share` the oldest lose their pin first; the current question never does."""
        # What has gone is forgotten, so that asking again costs what is left, not what was.
        self.marked = [u for u in self.marked if not self.gone[self.units[u].start]]
        self.run = [i for i in self.run if not self.gone[i]]
        found = {self.unit_of[i] for i in [*self.users[:1], *self.run]}.union(self.marked)
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

    def aim(self) -> None:
        """Set the low-water mark for this boundary: what stays anyway, and `target` of the room above it.

        Measured from what stays, because a share of the whole budget lies below a large system prompt or task,
        and shaping would then take everything else at every step. A note that had to be given up is tried again.
        """
        if self.freed >= NOTE_TOKENS:
            self.open_gap(NOTE_TOKENS)
        stays = sum(self.unit_size(u) for u in self.pins()) + self.fixed
        self.target = min(self.budget, stays + int(max(0, self.budget - stays) * self.policy.shaping.target))

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
        self.moved = self.moved or stage

    def drop(self, u: int, stage: Stage, reason: str) -> None:
        """Take a unit out, and with it the results of its calls that came late."""
        unit = self.units[u]
        for i in [*range(unit.start, unit.stop), *self.late.get(unit.start, ())]:
            if i < self.end:
                self.remove(i, stage, reason)

    def remove(self, i: int, stage: Stage, reason: str) -> None:
        """Take a message out. Once more is gone than the note takes, the note stands in its place."""
        if self.gone[i]:
            return
        self.gone[i] = 1
        self.freed += self.views[i].tokens
        self.kept -= self.unit_of[i] >= self.frontier
        self.edit(i, stage, 0, reason)
        if self.freed >= NOTE_TOKENS:
            self.open_gap(NOTE_TOKENS)

    def open_gap(self, tokens: int) -> None:
        """Count what stands in the gap: the note, or the larger summary that takes its place."""
        if tokens > self.gap_tokens:
            self.size += tokens - self.gap_tokens
            self.gap_tokens = tokens

    def close_gap(self) -> None:
        """Give up the note or the summary."""
        self.size -= self.gap_tokens
        self.gap_tokens = self.standing = 0

    def measure(self, i: int, stage: Stage, amount: int) -> int:
        """Tokens message i would have after an edit, by making it; remembered like a view."""
        key = (self.views[i].digest, stage, amount)
        tokens: int | None = self.memo.get(key)
        if tokens is None:
            tokens = self.memo.view(rewrite(self.raws[i], stage, amount)).tokens
            self.memo.put(key, tokens)
        return tokens
