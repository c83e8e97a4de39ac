"""Doing: from the messages and a plan to the messages that are sent. Pure; untouched messages keep their bytes."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Raw

from proxy.context.edits import Plan
from proxy.context.rewrite import announced, message, rewrite, unpin
from proxy.context.texts import NOTE, SUMMARY_PREFIX

_GONE = ("dropped", "summarized")


def apply(
    messages: Sequence[bytes | Raw], plan: Plan, summary: str | None = None, summary_role: str = "system"
) -> list[bytes | Raw]:
    """The messages to send. `summary` is the text that stands for what was summarised; without one the note says
    that something was removed. Neither holds a date, a count or an id, so the same history gives the same bytes."""
    edits = {edit.index: edit for edit in plan.edits}
    unpinned = frozenset(plan.unpin)
    sent: list[bytes | Raw] = []
    for i, raw in enumerate(messages):
        if plan.gap is not None and plan.gap.index == i:
            sent.append(_gap(summary, summary_role))
        edit = edits.get(i)
        if edit is not None and edit.stage in _GONE:
            continue
        data = raw if edit is None else rewrite(raw, edit.stage, edit.amount)
        data = unpin(data) if i in unpinned else data
        sent.append(announced(data) if plan.announce == i else data)
    if plan.gap is not None and plan.gap.index >= len(messages):
        sent.append(_gap(summary, summary_role))
    return sent


def _gap(summary: str | None, role: str) -> bytes:
    return message(role, f"{SUMMARY_PREFIX}\n{summary}" if summary else NOTE)
