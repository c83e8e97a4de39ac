"""What happens in this layer that someone should count or be told: one frozen value, a closed list of kinds.
The exchange turns them into metrics and log lines; nothing here writes either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

Kind = Literal[
    "discovery_found",  # the upstream said what it takes
    "discovery_silent",  # it answered and said nothing of limits
    "discovery_unreachable",  # no answer, an error status, or a hang
    "discovery_nonsense",  # an answer that is not what the endpoint gives, or numbers out of range
    "learned",  # an overflow lowered a limit
    "learned_contradicts",  # and it was lower than what is configured: someone should look
    "learned_ignored",  # a reported limit that cannot be right
    "learned_disproved",  # a request larger than a learned limit succeeded
    "usage_ignored",  # missing, zero, negative, absurd
    "factor_moved",  # a model's calibration took a step: plans made from now on differ
]


class Event(msgspec.Struct, frozen=True):
    """`detail` holds numbers and sources, never text of a conversation."""

    kind: Kind
    upstream: str
    model: str = ""
    detail: str = ""


Notify = Callable[[Event], None]
