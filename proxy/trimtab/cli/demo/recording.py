"""The recorded agent run in the package, and the requests it was made of.

Every assistant message after a user message or a tool result was once the answer to a request with all messages before
it. The demo makes these requests again, one after the other, with the recorded history.
"""

from __future__ import annotations

import gzip
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from trimtab.resources import resource

_FILE = "demo.json.gz"


class Recording(msgspec.Struct, frozen=True):
    """A conversation in OpenAI's format. Other fields of the file (its source and licence) are ignored."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None = None

    @property
    def steps(self) -> list[int]:
        """For each request, in order, the length of its history in messages."""
        before = ("user", "tool")
        roles = [message["role"] for message in self.messages]
        return [i for i in range(1, len(roles)) if roles[i] == "assistant" and roles[i - 1] in before]


def load() -> Recording:
    """The recording in the package. Raises FileNotFoundError when the package is incomplete."""
    return msgspec.json.decode(gzip.decompress(resource(_FILE).read_bytes()), type=Recording)


def spread(steps: Sequence[int], number: int | None) -> list[tuple[int, int]]:
    """(number of the request from 1, length of its history) for all requests, or for `number` of them, spread evenly
    from the first to the last."""
    numbered = list(enumerate(steps, 1))
    if number is None or number >= len(numbered):
        return numbered
    if number == 1:
        return numbered[-1:]
    return [numbered[round(k * (len(numbered) - 1) / (number - 1))] for k in range(number)]


def paced(
    steps: Sequence[tuple[int, int]], seconds: float, clock: Callable[[], float] = time.monotonic
) -> Iterator[tuple[int, int]]:
    """The steps, fewer on a slow machine: when all of them would take longer than `seconds`, some are left out after a
    quarter of that time. The last is never left out."""
    began = clock()
    at = made = 0
    while at < len(steps):
        yield steps[at]
        made += 1
        elapsed, left = clock() - began, len(steps) - 1 - at
        room = max(seconds - elapsed, seconds / 16)
        stride = math.ceil(left * elapsed / made / room) if elapsed > seconds / 4 else 1
        at += max(1, min(stride, left))
