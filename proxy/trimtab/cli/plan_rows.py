"""What a plan does to each message, folded into as many rows as a person reads. Pure; it keeps no text.

Each message becomes an item. Neighbours with the same fate become a run; where there are still too many runs, the
smallest neighbours are joined, so that thousands of messages fit on a screen and large ones stay visible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import msgspec

from trimtab.context.edits import Plan, Stage
from trimtab.context.read.structure import SYSTEM_ROLES, units
from trimtab.context.read.views import View

Fate = Stage | Literal["kept"]
FATES: tuple[Fate, ...] = ("kept", "truncated", "trimmed", "cleared", "summarized", "dropped", "squeezed")
KINDS = ("system", "user", "assistant", "tool calls", "tool results", "other")


class Item(msgspec.Struct, frozen=True):
    """One message, with its tokens before and after, as the upstream is expected to count them."""

    index: int
    kind: str
    fate: Fate
    before: int
    after: int
    tools: tuple[str, ...] = ()


class Run(msgspec.Struct, frozen=True):
    """Consecutive messages shown in one row."""

    items: tuple[Item, ...]

    @property
    def before(self) -> int:
        """Tokens before."""
        return sum(item.before for item in self.items)

    @property
    def after(self) -> int:
        """Tokens after."""
        return sum(item.after for item in self.items)

    @property
    def kinds(self) -> Counter[str]:
        """How many messages of each kind."""
        return Counter(item.kind for item in self.items)

    @property
    def fates(self) -> Counter[Fate]:
        """How many messages of each fate."""
        return Counter(item.fate for item in self.items)

    @property
    def tools(self) -> Counter[str]:
        """How often each tool is called."""
        return Counter(name for item in self.items for name in item.tools)


def items(views: Sequence[View], plan: Plan, counted: Callable[[int], int]) -> list[Item]:
    """Every message with its fate. `counted` turns estimated tokens into the upstream's."""
    edits = {edit.index: edit for edit in plan.edits}
    out = []
    for i, view in enumerate(views):
        edit = edits.get(i)
        stage: Fate = edit.stage if edit else "kept"
        fate: Fate = "cleared" if stage == "inputs_cleared" else stage
        after = edit.tokens_after if edit else view.tokens
        tools = tuple(call.name for call in view.calls)
        out.append(Item(i, kind(view), fate, counted(view.tokens), counted(after), tools))
    return out


def kind(view: View) -> str:
    """The kind of a message, one of KINDS."""
    if view.role in SYSTEM_ROLES:
        return "system"
    if view.is_result:
        return "tool results"
    if view.role == "assistant":
        return "tool calls" if view.calls else "assistant"
    return "user" if view.role == "user" else "other"


def by_kind(all_items: Iterable[Item]) -> dict[str, Run]:
    """The items of each kind that occurs, in the order of KINDS."""
    listed = list(all_items)
    found = {name: tuple(item for item in listed if item.kind == name) for name in KINDS}
    return {name: Run(of_kind) for name, of_kind in found.items() if of_kind}


def runs(views: Sequence[View], all_items: Sequence[Item], most: int) -> list[Run]:
    """The items in at most `most` rows (a few more where system and user messages alone are more)."""
    rows: list[Run] = []
    for unit in units(views):
        run = Run(tuple(all_items[unit.start : unit.stop]))
        if len(all_items) > most and rows and _alike(rows[-1], run):
            rows[-1] = _joined(rows[-1], run)
        else:
            rows.append(run)
    return _fewer(rows, most)


def _fewer(rows: list[Run], most: int) -> list[Run]:
    """Join small neighbours, doubling what counts as small, until there are at most `most` rows."""
    largest = sum(row.before for row in rows)
    small = max(1, largest // 1000)
    while len(rows) > most and small <= largest * 2:
        rows = _joined_below(rows, small)
        small *= 2
    return rows


def _joined_below(rows: list[Run], small: int) -> list[Run]:
    out: list[Run] = []
    for row in rows:
        if out and _may_join(out[-1], row) and out[-1].before + row.before <= small:
            out[-1] = _joined(out[-1], row)
        else:
            out.append(row)
    return out


def _joined(a: Run, b: Run) -> Run:
    return Run(a.items + b.items)


def _alike(a: Run, b: Run) -> bool:
    return _may_join(a, b) and set(a.fates) == set(b.fates)


def _may_join(a: Run, b: Run) -> bool:
    """Removed messages are not joined with sent ones, nor the system prompt with the conversation."""
    return _gone(a) == _gone(b) and ("system" in a.kinds) == ("system" in b.kinds)


def _gone(run: Run) -> bool:
    return all(item.after == 0 for item in run.items)
