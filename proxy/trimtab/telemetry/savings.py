"""What shaping saved, in US dollars: a cautious figure, so that the bill holds no surprise.

The tokens that were removed are old ones, which a provider with a prefix cache would have read at the cached price. So
they count at that price once a model is known to read from its cache, else at the full price. The cost of summaries is
subtracted. The baseline is the same history sent whole, even where it would not have fit.
"""

from __future__ import annotations

from trimtab.telemetry.record import Exchange, SummaryRun

_MILLION = 1_000_000


def gross_usd(exchange: Exchange, serves_cache: bool) -> float:
    """Dollars not spent on tokens that were not sent; 0 when all were sent or the prices are unknown."""
    removed = exchange.tokens.original - exchange.tokens.sent
    if exchange.outcome != "shaped" or exchange.prices is None or removed <= 0:
        return 0.0
    price = exchange.prices.cached_input if serves_cache else exchange.prices.input
    return removed * price / _MILLION


def run_usd(run: SummaryRun) -> float:
    """The cost of one call of the summary model, in dollars; 0 when its prices are unknown."""
    if run.prices is None:
        return 0.0
    return (run.tokens_in * run.prices.input + run.tokens_out * run.prices.output) / _MILLION


class Ledger:
    """The net savings of one model, as a figure that only grows, because it feeds a counter.

    A summary costs before it saves, so the balance may be negative for a while; later savings pay that back first.
    """

    def __init__(self) -> None:
        self._debt = 0.0

    def add(self, usd: float) -> float:
        """Add `usd` (a cost is negative) and return how much the net total rose, in dollars."""
        balance = usd - self._debt
        self._debt = max(0.0, -balance)
        return max(0.0, balance)
