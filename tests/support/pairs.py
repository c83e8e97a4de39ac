"""What the receiving side of a request checks: tool calls and their results in pairs, and who speaks first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from trimtab.context.read.structure import SYSTEM_ROLES, callers
from trimtab.context.read.views import View


def broken_pairs(views: Sequence[View]) -> int:
    """Results without their call, plus assistant messages with a call whose result is missing or doubled."""
    answered: dict[int, Counter[str]] = {}
    orphans = 0
    for i, caller in enumerate(callers(views)):
        answers = views[i].answers
        if answers is None:
            continue
        if caller == i:
            orphans += 1
        else:
            answered.setdefault(caller, Counter())[answers] += 1
    calling = (i for i, view in enumerate(views) if view.calls)
    return orphans + sum(answered.get(i, Counter()) != Counter(c.id for c in views[i].calls) for i in calling)


def starts_with_assistant(views: Sequence[View]) -> bool:
    """True when the first message after the leading system messages is an assistant's."""
    return next((v.role for v in views if v.role not in SYSTEM_ROLES), "") == "assistant"
