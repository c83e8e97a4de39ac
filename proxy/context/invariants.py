"""What a shaped request must keep, seen from the receiving side: which tool pairs are broken in a list of messages.

The planner never asks this (it cuts at units, which cannot break a pair); tests and the observer do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from proxy.context.turns import units
from proxy.context.views import View


def broken_pairs(views: Sequence[View]) -> int:
    """Results without their call, plus calls whose results are missing or doubled."""
    broken = 0
    for unit in units(views):
        head = views[unit.start]
        if head.is_result:
            broken += 1
            continue
        wanted = Counter(call.id for call in head.calls)
        given = Counter(v.answers for v in views[unit.start + 1 : unit.stop] if v.is_result)
        broken += wanted != given
    return broken


def starts_with_assistant(views: Sequence[View]) -> bool:
    """Whether the first message after the leading system messages is an assistant's."""
    first = next((v.role for v in views if v.role not in ("system", "developer")), "")
    return first == "assistant"
