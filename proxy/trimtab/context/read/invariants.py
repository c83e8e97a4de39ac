"""What a shaped request must keep, seen from the receiving side: which tool pairs are broken in a list of messages.

The planner never asks this (it cuts at units, which cannot break a pair); tests and the observer do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from trimtab.context.read.turns import SYSTEM_ROLES, homes
from trimtab.context.read.views import View


def broken_pairs(views: Sequence[View]) -> int:
    """Results without their call, plus assistant messages with a call whose result is missing or doubled."""
    given: dict[int, Counter[str]] = {}
    orphans = 0
    for i, home in enumerate(homes(views)):
        answers = views[i].answers
        if answers is None:
            continue
        if home == i:
            orphans += 1
        else:
            given.setdefault(home, Counter())[answers] += 1
    callers = (i for i, view in enumerate(views) if view.calls)
    return orphans + sum(given.get(i, Counter()) != Counter(c.id for c in views[i].calls) for i in callers)


def starts_with_assistant(views: Sequence[View]) -> bool:
    """Whether the first message after the leading system messages is an assistant's."""
    return next((v.role for v in views if v.role not in SYSTEM_ROLES), "") == "assistant"
