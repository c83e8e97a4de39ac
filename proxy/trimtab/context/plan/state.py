"""The state of a replay: what would have been sent, as far as the history has been walked.

Every prefix of a history that ends before an assistant message once was a request. The planner walks the history
once and at each such boundary does what it would have done then; this is the state it carries. Frontiers only move
forward and a removed message stays removed. No clock is read, so the walk is a pure function of history, policy and
budget, and two replicas that never met send the same bytes.

Three parts: the `structure` of the history, which does not change; `clearing`, how far tool results have been
cleared; `compaction`, how far the history has been compacted. The rest is what would be sent. A stage takes the state.
"""

from __future__ import annotations

import msgspec

from trimtab.context.apply.again import measured
from trimtab.context.apply.format import CHAT, Format
from trimtab.context.edits import Edit, Edits, Stage
from trimtab.context.estimate.tokens import MESSAGE_OVERHEAD, text_tokens
from trimtab.context.plan.frontiers import Answers, Clearing, Compaction
from trimtab.context.policy import Policy
from trimtab.context.read.memo import Memo
from trimtab.context.read.structure import SYSTEM_ROLES, Structure, answers_before
from trimtab.context.read.views import View
from trimtab.context.texts import NOTE

# The extract takes at most this part of the tokens removed, and a shorter one is not worth its first line.
_EXTRACT_PART = 2
_LEAST_EXTRACT = 96
_BESIDE_SUMMARY = 0.15  # of its share
_MOST_EXTRACT = 8_000  # tokens: in a large window a share would be more than is worth reading (docs/policy.md)
_MOST_REMINDERS = 8  # system messages in a row

NOTE_TOKENS = text_tokens(NOTE) + MESSAGE_OVERHEAD


class State(msgspec.Struct, eq=False):
    """What would have been sent, up to the boundary at which the walk stands. It lives for one replay. Messages and
    units are named by their index; sizes are estimated tokens."""

    structure: Structure
    fixed: int  # of what stays beside the messages, such as tools; grows by each system message walked
    policy: Policy
    budget: int
    memo: Memo
    format: Format = CHAT
    target: int = 0
    most_extract: int = 0  # that the extract may take at this boundary
    most_messages: int = 0
    clearing: Clearing = msgspec.field(default_factory=lambda: Clearing(0))
    compaction: Compaction = msgspec.field(default_factory=lambda: Compaction(0))
    # What would be sent.
    size: int = 0
    sent: list[int] = []  # by message: its size as it would be sent
    edits: dict[int, Edit] = {}  # by message
    ordered: tuple[Edit, ...] | None = ()  # the same in the order of messages; None: see `ordered_edits`
    prefix_break: Stage | None = None  # the first stage that changed a message at this boundary
    first_edit: int | None = None  # the first message edited at this boundary
    unbound: dict[int, None] = {}  # messages whose thinking is taken out, in order
    gone: bytearray = bytearray()  # by message: 1 when it has been removed
    message_count: int = 0  # messages sent from the frontier of compaction on, system messages apart
    removed_tokens: int = 0  # of all removed messages, before any edit
    answers: Answers = msgspec.field(default_factory=Answers)
    # What has been walked.
    end: int = 0  # messages walked: the boundary at which the walk stands
    users: list[int] = []  # user messages
    run: list[int] = []  # the newest question, and user messages injected while its tools ran
    reminders: list[int] = []  # the newest system message within the conversation, and those right before it
    client_pins: list[int] = []  # units the client pinned
    oversized: list[int] = []  # messages over `max_message_chars`, not truncated yet
    left: list[int] = []  # see `remaining`
    of_task: list[int] = []  # see `task`

    def __post_init__(self) -> None:
        """The state before the first message."""
        structure, policy, budget = self.structure, self.policy, self.budget
        self.size, self.target, self.most_extract = self.fixed, budget, self.extract_share_of(budget)
        self.clearing = Clearing(min(budget, policy.trigger_tokens or budget))
        self.compaction = Compaction(structure.first_unit)
        self.extend(structure)

    def extend(self, structure: Structure) -> None:
        """Make ready to walk a history, of which the messages walked are the first."""
        known, views = len(self.sent), structure.views
        self.structure = structure
        self.most_messages = min(self.message_limits, default=len(views))
        self.sent += [view.tokens for view in (views[known:] if known else views)]
        self.gone += bytes(len(views) - known)
        if self.policy.strict_roles:
            before = answers_before(structure.units, views)
            self.answers = Answers(before, {answer: user for user, answer in before.items()}, self.answers.skipped)

    # -- walking -------------------------------------------------------------------------------------------------

    def advance(self, end: int) -> None:
        """Take in the messages up to `end`."""
        self.prefix_break, self.first_edit, self.compaction.gap_changed = None, None, False
        views = self.structure.views
        for i in range(self.end, end):
            self.end = i + 1
            self._take(i, views[i])

    def _take(self, i: int, view: View) -> None:
        self.size += view.tokens
        if view.role in SYSTEM_ROLES:
            self._take_system(i, view)
        else:
            self.message_count += 1
            self.left.append(i)
        caller = self.structure.caller_of[i]
        if self.gone[caller]:
            return self.remove(i, self.edits[caller].stage, "its tool call was removed")
        if view.role == "user":
            self._take_user(i)
        elif view.role == "assistant":
            self.clearing.answered = len(self.clearing.results)
        elif view.is_result:
            self.clearing.results.append(i)
        if view.pinned:
            # A late result cannot stay without its call.
            self.client_pins += dict.fromkeys((self.structure.unit_of[caller], self.structure.unit_of[i]))
        if view.chars > self.policy.shaping.max_message_chars:
            self.oversized.append(i)

    def _take_system(self, i: int, view: View) -> None:
        if self.structure.is_fixed(i):
            self.fixed += view.tokens
            return
        if self.reminders and self.reminders[-1] != i - 1:
            self.reminders = []
        self.reminders = [*self.reminders[-_MOST_REMINDERS + 1 :], i]

    def _take_user(self, i: int) -> None:
        views, at = self.structure.views, i - 1
        while at >= 0 and views[at].role in SYSTEM_ROLES:
            at -= 1
        before = views[at] if at >= 0 else None
        injected = before is not None and (before.is_result or before.role == "user")
        if len(self.users) < len(self.structure.task):
            self.of_task.append(i)
        if not injected:
            self.run = []
        self.run.append(i)
        self.users.append(i)

    @property
    def question(self) -> int | None:
        """The newest user message so far."""
        return self.users[-1] if self.users else None

    @property
    def task(self) -> list[int]:
        """Messages of the task, as far as walked, that have not been removed. Linear in their number."""
        self.of_task = [i for i in self.of_task if not self.gone[i]]
        return self.of_task

    @property
    def over(self) -> bool:
        """True when the size is above the budget."""
        return self.size > self.budget

    @property
    def units_walked(self) -> int:
        """Number of units walked. At a boundary all of them are complete."""
        return self.structure.unit_of[self.end - 1] + 1 if self.end else 0

    @property
    def needs_shaping(self) -> bool:
        """True when there are too many tokens, messages or tool results."""
        uses = self.policy.trigger_tool_uses
        return (
            self.size > self.clearing.trigger
            or self.message_count > self.most_messages
            or (uses is not None and self.clearing.waiting > uses)
        )

    def remaining(self) -> list[int]:
        """Messages walked and not removed, system messages apart. Linear in the number of those that remain."""
        self.left = [i for i in self.left if not self.gone[i]]
        return self.left

    # -- sizes -----------------------------------------------------------------------------------------------------

    @property
    def message_limits(self) -> list[int]:
        """The most messages that are sent, by each setting that bounds them."""
        limits = (self.policy.shaping.max_messages, self.policy.shaping.summarize_after_messages)
        return [n for n in limits if n is not None]

    def unit_size(self, u: int) -> int:
        """Tokens of a unit as it would be sent, as far as it has been walked."""
        unit = self.structure.units[u]
        return sum(self.sent[i] for i in range(unit.start, min(unit.stop, self.end)) if not self.gone[i])

    def unit_gone(self, u: int) -> bool:
        """True when a unit has been removed."""
        return bool(self.gone[self.structure.units[u].start])

    def is_untouchable(self, i: int) -> bool:
        """True for system messages, the current question and a prefill, which reach the model unchanged."""
        return self.structure.views[i].role in SYSTEM_ROLES or i == self.question or i in self.structure.prefill

    # -- changing ------------------------------------------------------------------------------------------------

    def edit(self, i: int, stage: Stage, tokens: int, reason: str, amount: int = 0) -> None:
        """Put one edit on message i; a later edit takes the place of an earlier one."""
        self.size += tokens - self.sent[i]
        self.sent[i] = tokens
        self.ordered = None
        self.edits[i] = Edit(stage, i, self.structure.views[i].tokens, tokens, reason, amount)
        self.prefix_break = self.prefix_break or stage
        if self.first_edit is None or i < self.first_edit:
            self.first_edit = i

    @property
    def ordered_edits(self) -> tuple[Edit, ...]:
        """The edits in the order of their messages; made anew only where one has changed."""
        if self.ordered is None:
            self.ordered = Edits([self.edits[i] for i in sorted(self.edits)])
        return self.ordered

    def drop(self, u: int, stage: Stage, reason: str) -> None:
        """Remove a unit, and with it the late results of its calls."""
        unit = self.structure.units[u]
        for i in [*range(unit.start, unit.stop), *self.structure.late_results.get(unit.start, ())]:
            if i < self.end:
                self.remove(i, stage, reason)
        self._move_extract()

    def remove(self, i: int, stage: Stage, reason: str) -> None:
        """Remove a message. The note stands in the gap as soon as the removed messages were as large as the note."""
        if self.gone[i]:
            return
        self.gone[i] = 1
        self.removed_tokens += self.structure.views[i].tokens
        if self.structure.views[i].role not in SYSTEM_ROLES:
            self.message_count -= self.structure.unit_of[i] >= self.compaction.frontier
        self.edit(i, stage, 0, reason)
        if self.removed_tokens >= NOTE_TOKENS:
            self.open_gap(NOTE_TOKENS)

    def _move_extract(self) -> None:
        """The frontier has moved: the extract is of all messages removed so far, and may take its share of the
        room, but not more than a part of what they took. It changes at no other time, which keeps the prefix."""
        compaction = self.compaction
        compaction.moved_at = self.end
        most = min(self.most_extract, self.removed_tokens // _EXTRACT_PART)
        if most >= _LEAST_EXTRACT and most > compaction.extract_tokens:
            self.reserve_extract(most)
        compaction.gap_changed = compaction.gap_changed or compaction.extract_tokens > 0

    def extract_share_of(self, room: int) -> int:
        """Tokens: the most that the extract may take of so much room; little of it beside a summary, which holds
        the rest."""
        share = self.policy.shaping.extract_share * (_BESIDE_SUMMARY if self.policy.compaction else 1)
        return min(int(max(0, room) * share), _MOST_EXTRACT)

    def reserve_extract(self, tokens: int) -> None:
        """Count the extract at that many tokens."""
        self.size += tokens - self.compaction.extract_tokens
        self.compaction.extract_tokens = tokens

    def open_gap(self, tokens: int) -> None:
        """Count what stands in the gap: the note, or the larger summary that takes its place."""
        if tokens > self.compaction.gap_tokens:
            self.size += tokens - self.compaction.gap_tokens
            self.compaction.gap_tokens = tokens
            self.gap_changed()

    def gap_changed(self) -> None:
        """Note that another text stands in the gap."""
        self.compaction.gap_changed = True

    @property
    def first_change(self) -> int | None:
        """The first message that is another one since this boundary, the one in the gap included; None without any."""
        gap = (self.structure.task[-1] + 1 if self.task else 0) if self.compaction.gap_changed else None
        return min((i for i in (self.first_edit, gap) if i is not None), default=None)

    def close_gap(self) -> None:
        """Give up the note or the summary, and the extract."""
        self.size -= self.compaction.gap_tokens
        self.compaction.gap_tokens = self.compaction.covered = 0
        self.gap_changed()
        self.close_extract()

    def close_extract(self) -> None:
        """Give up the extract; at this boundary it does not come back."""
        self.most_extract = 0
        self.reserve_extract(0)

    def measure(self, i: int, stage: Stage, amount: int) -> int:
        """Tokens message i would have after an edit; the memo keeps the result."""
        view = self.structure.views[i]
        key = (view.digest, stage, amount)
        tokens: int | None = self.memo.get(key)
        if tokens is None:
            tokens = measured(self.structure.raws[i], view, stage, amount, self.format, self.memo)
            self.memo.put(key, tokens)
        return tokens - self.structure.views[i].bound_tokens if i in self.unbound else tokens
