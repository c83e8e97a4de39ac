"""The result of a replay, as numbers. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from trimtab.cli.demo.client import Step

CACHED_PRICE = 0.1  # of an uncached token: about what OpenAI, Anthropic and Google charge for their newer models


class Score(msgspec.Struct, frozen=True):
    """The numbers of one replay. Tokens are true o200k counts; `raw` are those of the whole histories of the answered
    requests; times are milliseconds; `edits` are those of the last request, by stage."""

    answered: int
    refused: int
    raw: int
    sent: int
    cached: int
    added_p50: float
    added_p99: float
    edits: dict[str, int]

    @property
    def made(self) -> int:
        """Requests that were made."""
        return self.answered + self.refused

    @property
    def cached_share(self) -> float:
        """The share of the sent tokens that were cached."""
        return self.cached / max(1, self.sent)

    @property
    def cost(self) -> float:
        """The cost of the input, relative to sending every history whole and uncached."""
        return (self.sent - self.cached + CACHED_PRICE * self.cached) / max(1, self.raw)


def score(steps: Sequence[Step], sizes: Sequence[int]) -> Score:
    """The score of a replay. `sizes[n]` are the tokens of the first n messages of the recording."""
    good = [step for step in steps if not step.error]
    added = sorted(step.added_ms for step in good)
    return Score(
        answered=len(good),
        refused=len(steps) - len(good),
        raw=sum(sizes[step.messages] for step in good),
        sent=sum(step.sent for step in good),
        cached=sum(step.cached for step in good),
        added_p50=quantile(added, 0.5),
        added_p99=quantile(added, 0.99),
        edits=good[-1].edits if good else {},
    )


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which a share of an ordered list lies; 0 for an empty list."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
