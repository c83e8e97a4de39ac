"""One line a request, JSON or pretty, from the record and nothing else; and the lines of the libraries under
us in the same form. No text of a conversation and no key can get in: the record has none, and of an exception
only its type and where it was raised are written, never its message, which may quote the input.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, TextIO, cast

import msgspec
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from trimtab.telemetry.lossy import Lossy
from trimtab.telemetry.record import Exchange, SummaryRun
from trimtab.telemetry.settings import TelemetrySettings

# Libraries that log a line of their own for each request at info.
_CHATTY = ("httpx", "httpcore", "aiohttp.access", "granian.access", "_granian", "asyncio")
_LEVELS = {"failed": "error", "upstream_error": "warning", "overloaded": "warning"}
_NUMBERS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_LONGEST = 128  # characters of a name the client typed


Ended = tuple[Exchange, float]  # an exchange, and when it ended, in seconds since the epoch


def _level(exchange: Exchange) -> str:
    return _LEVELS.get(exchange.outcome, "warning" if exchange.fail_open else "info")


def fields(exchange: Exchange) -> dict[str, Any]:
    """The record as flat log fields: tokens, seconds rounded to 10 µs; what is empty is left out."""
    tokens, timing, usage = exchange.tokens, exchange.timing, exchange.usage
    found = {
        "request_id": exchange.request_id[:_LONGEST],
        "path": exchange.path,
        "outcome": exchange.outcome,
        "status": exchange.status,
        "model": exchange.model[:_LONGEST],
        "upstream": exchange.upstream,
        "upstream_status": exchange.upstream_status,
        "stream": exchange.stream,
        "profile": exchange.profile,
        "hint": exchange.hint,
        "tokens_original": tokens.original,
        "tokens_sent": tokens.sent,
        "budget": tokens.budget,
        "context_size": tokens.context_size,
        "limit_source": tokens.limit_source,
        "summary": "" if exchange.summary == "none" else exchange.summary,
        "estimate_ratio": exchange.estimate_ratio and round(exchange.estimate_ratio, 3),
        "prefix_break": exchange.prefix_break,
        "duration_s": round(timing.duration, 5),
        "shaping_s": timing.shaping and round(timing.shaping, 5),
        "overhead_s": timing.overhead and round(timing.overhead, 5),
        "ttfb_s": timing.upstream_ttfb and round(timing.upstream_ttfb, 5),
        "retries": exchange.retries,
        "overflow": exchange.overflow,
        "fail_open": exchange.fail_open,
        "error_code": exchange.error_code[:_LONGEST],
    }
    for edited in exchange.edits:
        found[edited.stage] = edited.count
    if exchange.summary_runs:
        found["compaction_in"] = sum(run.tokens_in for run in exchange.summary_runs)
        found["compaction_out"] = sum(run.tokens_out for run in exchange.summary_runs)
    if usage is not None:
        found["prompt_tokens"] = usage.prompt
        found["completion_tokens"] = usage.completion
        found["cached_tokens"] = usage.cached
    return {name: value for name, value in found.items() if value}


class JsonLines:
    """Events straight into the stream, in the form the logger gives them: one a request, so the logger's way, which
    is made for rarer ones and takes twice as long, is spared. `floor` is the level below which none is written.
    """

    def __init__(self, stream: TextIO, floor: int) -> None:
        self._stream, self._floor = stream, floor

    def write(self, exchanges: Iterable[Ended]) -> None:
        """Write a line for each, all at once."""
        lines = [self._line(exchange, at) for exchange, at in exchanges if _NUMBERS[_level(exchange)] >= self._floor]
        if lines:
            self._stream.write("".join(lines))
            self._stream.flush()

    def _line(self, exchange: Exchange, at: float) -> str:
        found = fields(exchange)
        found |= {"event": "exchange", "level": _level(exchange), "timestamp": datetime.fromtimestamp(at, UTC)}
        return msgspec.json.encode(found, enc_hook=str).decode() + "\n"


class ExchangeLog:
    """Writes the records. Levels: warning for what an operator should look into, error for our own bugs,
    info for all else, a refusal too: it is a decision for a person, not an outage.
    """

    def __init__(self, logger: WrappedLogger, lines: JsonLines | None = None) -> None:
        self._logger, self._lines = logger, lines

    def exchanges(self, ended: Sequence[Ended]) -> None:
        """One line for each request, with the time it ended (seconds since the epoch)."""
        if self._lines is not None:
            self._lines.write(ended)
            return
        for exchange, _ in ended:
            getattr(self._logger, _level(exchange))("exchange", **fields(exchange))

    def summary_run(self, run: SummaryRun) -> None:
        """One line for a summary made, or not made, in the background."""
        level = "info" if run.outcome == "made" else "warning"
        found = msgspec.structs.asdict(run) | {
            "seconds": round(run.seconds, 3),
            "model": run.model[:_LONGEST],
        }
        del found["prices"]
        getattr(self._logger, level)("summary", **found)

    def bug(self, request_id: str, error: BaseException) -> None:
        """An error no one foresaw: where it was raised, not what it says."""
        self._logger.error("bug", request_id=request_id[:_LONGEST], **_whereabouts(error))


def _whereabouts(error: BaseException) -> dict[str, Any]:
    return {"error": type(error).__qualname__, "where": _frames(error.__traceback__)}


def _frames(trace: TracebackType | None) -> list[str]:
    """The innermost eight frames as `file:line function`."""
    return [f"{f.filename}:{f.lineno} {f.name}" for f in traceback.extract_tb(trace)[-8:]]


def _without_messages(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Put an exception's type and place in the stead of its message and source lines."""
    info = event.pop("exc_info", None)
    error = info[1] if isinstance(info, tuple) else info if isinstance(info, BaseException) else sys.exception()
    if info and error is not None:
        event.update(_whereabouts(error))
    return event


def _json(_: WrappedLogger, __: str, event: EventDict) -> str:
    return msgspec.json.encode(event, enc_hook=str).decode()


def _shared() -> list[Processor]:
    return [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _without_messages,
    ]


def _renderer(settings: TelemetrySettings, stream: TextIO) -> Processor:
    pretty = settings.log_format == "pretty" or (settings.log_format == "auto" and stream.isatty())
    if not pretty:
        return _json
    return structlog.dev.ConsoleRenderer(colors=stream.isatty(), pad_event_to=10)


def configure(settings: TelemetrySettings, stream: TextIO | None = None) -> ExchangeLog:
    """Set up this process's log into `stream` (default: standard output); returns the writer of records."""
    stream = cast(TextIO, Lossy(stream or sys.stdout))
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    render = _renderer(settings, stream)
    _route_libraries(stream, level, render)
    logger = structlog.wrap_logger(
        structlog.WriteLogger(stream),
        processors=[*_shared(), render],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )
    return ExchangeLog(logger.bind(), JsonLines(stream, level) if render is _json else None)


def _route_libraries(stream: TextIO, level: int, render: Processor) -> None:
    """Let what is logged by the standard library's `logging` come out in the same form."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *_shared()],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, render],
        )
    )
    logging.basicConfig(handlers=[handler], level=level, force=True)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
