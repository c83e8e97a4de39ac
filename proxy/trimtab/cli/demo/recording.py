"""The recorded agent run that ships with the package, and the requests it was made of.

Every assistant message that follows a user's message or a tool's result was once the answer to a request: all
messages before it. The demo makes these requests again, one after the other, whatever is answered.
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
    """A conversation in OpenAI's format. Unknown fields of the file (its source and licence) are left alone."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None = None

    @property
    def steps(self) -> list[int]:
        """The lengths of the histories that were requests, in order."""
        before = ("user", "tool")
        roles = [message["role"] for message in self.messages]
        return [i for i in range(1, len(roles)) if roles[i] == "assistant" and roles[i - 1] in before]


def load() -> Recording:
    """The recording of the package. Raises FileNotFoundError when the package is incomplete."""
    return msgspec.json.decode(gzip.decompress(resource(_FILE).read_bytes()), type=Recording)


def spread(steps: Sequence[int], number: int | None) -> list[tuple[int, int]]:
    """(number of the step from 1, its history's length) for all steps, or for `number` of them spread evenly
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
    """The steps as they are asked for; on a machine so busy that all would take longer than `seconds`, some are
    left out from a quarter of that time on. The last is never left out."""
    began = clock()
    at = made = 0
    while at < len(steps):
        yield steps[at]
        made += 1
        elapsed, left = clock() - began, len(steps) - 1 - at
        room = max(seconds - elapsed, seconds / 16)
        stride = math.ceil(left * elapsed / made / room) if elapsed > seconds / 4 else 1
        at += max(1, min(stride, left))
