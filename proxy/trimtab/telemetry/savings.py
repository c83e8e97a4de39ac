"""What shaping was worth in US dollars: a cautious figure, so that nobody is disappointed by the bill.

Tokens taken out are old ones, which a provider with a prefix cache would have read at the cached price. So
they count at that price once a model was seen to serve from its cache, else at the full one. What the summary
model cost goes off. The baseline is the same history sent whole, window or not.
"""

from __future__ import annotations

from trimtab.telemetry.record import Exchange, SummaryRun

_MILLION = 1_000_000


def gross_usd(exchange: Exchange, serves_cache: bool) -> float:
    """Dollars not spent on the tokens that were not sent; 0 when nothing was, or the prices are unknown."""
    removed = exchange.tokens.original - exchange.tokens.sent
    if exchange.outcome != "shaped" or exchange.prices is None or removed <= 0:
        return 0.0
    price = exchange.prices.cached_input if serves_cache else exchange.prices.input
    return removed * price / _MILLION


def run_usd(run: SummaryRun) -> float:
    """Dollars one call of the summary model cost; 0 when its prices are unknown."""
    if run.prices is None:
        return 0.0
    return (run.tokens_in * run.prices.input + run.tokens_out * run.prices.output) / _MILLION


class Ledger:
    """Net savings of one model as a figure that only grows, as a counter must.

    A summary is paid before it saves, so the balance may be in debt for a while: later savings pay that.
    """

    def __init__(self) -> None:
        self._debt = 0.0

    def add(self, usd: float) -> float:
        """Book `usd` (negative: a cost) and return by how much the net total rose, in dollars."""
        balance = usd - self._debt
        self._debt = max(0.0, -balance)
        return max(0.0, balance)
