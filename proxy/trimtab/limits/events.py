"""What happens in `limits` and `calibration` that is worth counting: one frozen value, a closed list of kinds.

Whoever makes the `Limits` gives a `Notify`, and turns events into metrics; nothing here writes a metric or a log
line. The kinds are label values of `trimtab_limit_events_total`, so docs/metrics.md lists them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

Kind = Literal[
    "discovery_found",  # the upstream stated what it takes
    "discovery_silent",  # it answered, and stated no limit
    "discovery_unreachable",  # no answer, an error status, or a round that took too long
    "discovery_nonsense",  # the answer was not in the endpoint's format
    "learned",  # an overflow lowered a limit
    "learned_contradicts",  # an overflow lowered a limit that an operator wrote: the configuration needs a look
    "learned_ignored",  # an overflow named a limit that cannot be right
    "learned_disproved",  # a prompt larger than a learned limit was accepted
    "usage_ignored",  # a reported count that is missing, zero, negative or absurd
    "factor_moved",  # a model's factor took a step: plans made from now on may differ
]


class Event(msgspec.Struct, frozen=True):
    """One event of one (upstream, model)."""

    kind: Kind
    upstream: str
    model: str = ""


Notify = Callable[[Event], None]
