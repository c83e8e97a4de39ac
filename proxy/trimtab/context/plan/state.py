"""The state of a replay: what would have been sent, as far as the history has been walked.

Every prefix of a history that ends before an assistant message once was a request. The planner walks the history
once and at each such boundary does what it would have done then; this is the state it carries. Frontiers only move
forward and a removed message stays removed. No clock is read, so the walk is a pure function of history, policy and
budget, and two replicas that never met send the same bytes.

Three parts: the `structure` of the history, which does not change; `clearing`, how far tool results have been
cleared; `compaction`, how far the history has been compacted. The rest is what would be sent. A stage takes the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import msgspec
from msgspec import Raw

from trimtab.context.apply.format import CHAT, Format
from trimtab.context.edits import Edit, Stage
from trimtab.context.estimate.tokens import MESSAGE_OVERHEAD, text_tokens
from trimtab.context.plan.frontiers import Answers, Clearing, Compaction
from trimtab.context.policy import Policy
from trimtab.context.read.memo import Memo
from trimtab.context.read.structure import SYSTEM_ROLES, Structure, answers_before, structure
from trimtab.context.read.views import View
from trimtab.context.texts import NOTE, SUMMARY_READ

# The extract takes at most this part of the tokens removed, and a shorter one is not worth its first line.
_EXTRACT_PART = 2
_LEAST_EXTRACT = 96
_BESIDE_SUMMARY = 0.15  # of its share
# In a large window a share would be more than is worth reading (tokens; docs/policy.md).
_MOST_EXTRACT = 8_000

_MOST_REMINDERS = 8  # system messages in a row

NOTE_TOKENS = text_tokens(NOTE) + MESSAGE_OVERHEAD
ANSWER_TOKENS = text_tokens(SUMMARY_READ) + MESSAGE_OVERHEAD  # see `Gap.answered`


class State:
    """What would have been sent, up to the boundary at which the walk stands. It lives for one replay. Messages and
    units are named by their index; sizes are estimated tokens.
    """

    __slots__ = (
        "_first_edit",
        "_ordered",
        "_remaining",
        "_task",
        "answers",
        "budget",
        "clearing",
        "client_pins",
        "compaction",
        "edits",
        "end",
        "fixed",
        "format",
        "gone",
        "memo",
        "message_count",
        "most_extract",
        "most_messages",
        "oversized",
        "policy",
        "prefix_break",
        "reminders",
        "removed_tokens",
        "run",
        "sent",
        "size",
        "structure",
        "target",
        "unbound",
        "users",
    )

    def __init__(
        self, structure: Structure, fixed: int, policy: Policy, budget: int, memo: Memo, format: Format = CHAT
    ) -> None:
        """`fixed`: tokens of what the model reads beside the messages, such as tools."""
        self.structure, self.policy, self.memo, self.format = structure, policy, memo, format
        self.budget = self.target = budget
        self.most_extract = self.extract_share_of(budget)  # tokens that the extract may take at this boundary
        self.most_messages = min(self.message_limits, default=len(structure.views))
        self.clearing = Clearing(min(budget, policy.trigger_tokens or budget))
        self.compaction = Compaction(structure.first_unit)
        # What would be sent.
        self.size = fixed
        self.fixed = fixed  # grows by each system message walked
        self.sent = [view.tokens for view in structure.views]  # by message: its size as it would be sent
        self.edits: dict[int, Edit] = {}  # by message
        self._ordered: tuple[Edit, ...] | None = ()  # the same in the order of messages; None: to be made
        self.prefix_break: Stage | None = None  # the first stage that changed a message at this boundary
        self._first_edit: int | None = None  # the first message edited at this boundary
        self.unbound: dict[int, None] = {}  # messages whose thinking is taken out, in order
        self.gone = bytearray(len(structure.views))  # by message: 1 when it has been removed
        self.message_count = 0  # messages sent from the frontier of compaction on, system messages apart
        self.removed_tokens = 0  # of all removed messages, before any edit
        self.answers = _answers(structure) if policy.strict_roles else Answers()
        # What has been walked.
        self.end = 0  # messages walked: the boundary at which the walk stands
        self.users: list[int] = []  # user messages
        self.run: list[int] = []  # the newest question, and user messages injected while its tools ran
        self.reminders: list[int] = []  # the newest system message within the conversation, and those right before it
        self.client_pins: list[int] = []  # units the client pinned
        self.oversized: list[int] = []  # messages over `max_message_chars`, not truncated yet
        self._remaining: list[int] = []
        self._task: list[int] = []

    def copy(self) -> State:
        """A state that changes apart from this one, to go on from later (see `resumed`): it names no text."""
        other = copy(self)
        other.structure = msgspec.structs.replace(self.structure, raws=())
        clearing, compaction, answers = self.clearing, self.compaction, self.answers
        other.clearing = msgspec.structs.replace(clearing, results=[*clearing.results])
        other.compaction = msgspec.structs.replace(
            compaction,
            kept_pins={**compaction.kept_pins},
            kept_reminders={**compaction.kept_reminders},
            kept_answers={**compaction.kept_answers},
            segments=[*compaction.segments],
        )
        other.answers = msgspec.structs.replace(answers, skipped={**answers.skipped})
        other.sent, other.edits, other.unbound = [*self.sent], {**self.edits}, {**self.unbound}
        other.gone = self.gone[:]
        other.users, other.run, other.reminders = [*self.users], [*self.run], [*self.reminders]
        other.client_pins, other.oversized = [*self.client_pins], [*self.oversized]
        other._remaining, other._task = [*self._remaining], [*self._task]
        return other

    def resumed(self, raws: Sequence[bytes | Raw], views: Sequence[View]) -> State:
        """This state, which is at a boundary of a longer history, made ready to walk the rest of it."""
        known = len(self.sent)
        self.structure = structure(raws, views, self.structure)
        self.most_messages = min(self.message_limits, default=len(views))
        self.sent += [view.tokens for view in views[known:]]
        self.gone += bytes(len(views) - known)
        if self.policy.strict_roles:
            self.answers = msgspec.structs.replace(_answers(self.structure), skipped=self.answers.skipped)
        return self

    # -- walking -------------------------------------------------------------------------------------------------

    def advance(self, end: int) -> None:
        """Take in the messages up to `end`."""
        self.prefix_break, self._first_edit, self.compaction.gap_changed = None, None, False
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
            self._remaining.append(i)
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
            self._task.append(i)
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
        self._task = [i for i in self._task if not self.gone[i]]
        return self._task

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
        self._remaining = [i for i in self._remaining if not self.gone[i]]
        return self._remaining

    # -- sizes -----------------------------------------------------------------------------------------------------

    @property
    def message_limits(self) -> list[int]:
        """The most messages that are sent, by each setting that bounds them."""
        limits = (self.policy.shaping.max_messages, self.policy.shaping.summarize_after_messages)
        return [n for n in limits if n is not None]

    @property
    def summary_cost(self) -> int:
        """Tokens that a summary in the gap may take, with the answer it may need."""
        answer = ANSWER_TOKENS if self.policy.strict_roles else 0
        return max(self.policy.summary_tokens + MESSAGE_OVERHEAD, NOTE_TOKENS) + answer

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
        self._ordered = None
        self.edits[i] = Edit(stage, i, self.structure.views[i].tokens, tokens, reason, amount)
        self.prefix_break = self.prefix_break or stage
        if self._first_edit is None or i < self._first_edit:
            self._first_edit = i

    @property
    def ordered_edits(self) -> tuple[Edit, ...]:
        """The edits in the order of their messages; made anew only where one has changed."""
        if self._ordered is None:
            self._ordered = tuple([self.edits[i] for i in sorted(self.edits)])
        return self._ordered

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
        return min((i for i in (self._first_edit, gap) if i is not None), default=None)

    def unbind(self) -> None:
        """Take the thinking out of every message from the first change on, for good. What comes after this boundary is
        made after what is sent now, and stays valid as long as nothing before it changes again."""
        for i in range(self.first_change or 0, self.end):
            bound = self.structure.views[i].bound_tokens
            if bound and i not in self.unbound and not self.gone[i]:
                self.unbound[i] = None
                self.sent[i] -= bound
                self.size -= bound

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
        """Tokens message i would have after an edit. The edit is made to measure it; the memo keeps the result."""
        key = (self.structure.views[i].digest, stage, amount)
        tokens: int | None = self.memo.get(key)
        if tokens is None:
            tokens = self.memo.view(self.format.rewrite(self.structure.raws[i], stage, amount)).tokens
            self.memo.put(key, tokens)
        return tokens - self.structure.views[i].bound_tokens if i in self.unbound else tokens


def _answers(structure: Structure) -> Answers:
    before = answers_before(structure.units, structure.views)
    return Answers(before, {answer: user for user, answer in before.items()})
