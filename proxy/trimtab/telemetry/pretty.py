"""The line of a request for a person at a terminal:

    14:03:05 200 gpt-4o shaped  40,442 → 28,005 of 28,672 tokens  cleared 20, dropped 5  3.1 ms  r-1

Time, status, model (or method and path), outcome, tokens as received and as sent and the budget, edits, what went
wrong, the time that is ours, and the id. All of it is in the JSON line too.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from trimtab.telemetry.record import Exchange

_LONGEST = 60  # characters of a name; the JSON line has more
_COLOURS = {2: "\x1b[32m", 4: "\x1b[33m", 5: "\x1b[31m"}
_PLAIN = "\x1b[0m"


def pretty(exchange: Exchange, ended: float, *, colours: bool = False, arrow: str = "→") -> str:
    """The line, without its end. `ended` is in seconds since the epoch; the time shown is local."""
    time = datetime.fromtimestamp(ended).strftime("%H:%M:%S")
    subject = _printable(exchange.model) or _printable(f"{exchange.method} {exchange.endpoint}".strip()) or "-"
    head = f"{time} {_status(exchange.status, colours)} {subject} {exchange.outcome}"
    return "  ".join((head, *_rest(exchange, arrow), _printable(exchange.request_id)))


def _rest(exchange: Exchange, arrow: str) -> Iterator[str]:
    tokens = exchange.tokens
    if tokens.budget:
        sent = f"{tokens.original:,} {arrow} {tokens.sent:,}" if tokens.sent != tokens.original else f"{tokens.sent:,}"
        yield f"{sent} of {tokens.budget:,} tokens"
    if exchange.edits:
        yield ", ".join(f"{edited.stage} {edited.count}" for edited in exchange.edits)
    if exchange.summary != "none":
        yield f"summary {exchange.summary}"
    if trouble := " ".join(_trouble(exchange)):
        yield trouble
    if exchange.timing.overhead is not None:
        yield f"{exchange.timing.overhead * 1000:.1f} ms"


def _trouble(exchange: Exchange) -> Iterator[str]:
    if exchange.upstream_status is not None and not 200 <= exchange.upstream_status < 400:
        yield f"{_printable(exchange.upstream)} answered {exchange.upstream_status or 'nothing'}"
    if exchange.error_code:
        yield _printable(exchange.error_code)
    if exchange.fail_open:
        yield f"without {exchange.fail_open}"


def _status(status: int, colours: bool) -> str:
    text = str(status) if status else "---"
    colour = _COLOURS.get(status // 100) if colours else None
    return f"{colour}{text}{_PLAIN}" if colour else text


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text[:_LONGEST])
