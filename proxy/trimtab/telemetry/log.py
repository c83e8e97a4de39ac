"""The log: one line for each request, JSON or pretty, made from its record; lines of libraries in the same form.

No text of a conversation and no key can get into the log: the record holds none, and of an exception only the type and
the place are written, never the message, which may quote the input.

A log that cannot be written (a full disk, a closed pipe) loses lines; it never fails a request.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, TextIO, cast

import msgspec
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from trimtab.telemetry.log_fields import LONGEST, fields, level
from trimtab.telemetry.pretty import pretty
from trimtab.telemetry.record import Exchange, SummaryRun
from trimtab.telemetry.settings import TelemetrySettings

# Libraries that log each request at level info.
_CHATTY = ("httpx", "httpcore", "aiohttp.access", "granian.access", "_granian", "asyncio")
_NUMBERS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

Ended = tuple[Exchange, float]
"""An exchange, and when it ended, in seconds since the epoch."""


class Lossy:
    """A text stream as far as a log needs it; what cannot be written is dropped."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write `text`, and return the number of characters; 0 when it failed."""
        try:
            return self._stream.write(text)
        except (OSError, ValueError):  # ValueError: the stream is closed
            return 0

    def flush(self) -> None:
        """Flush, if that works."""
        with suppress(OSError, ValueError):
            self._stream.flush()

    def isatty(self) -> bool:
        """True for an open terminal."""
        return not self._stream.closed and self._stream.isatty()


class JsonLines:
    """Writes one JSON line for each request, as the logger would write it, in half the logger's time. Lines below the
    level `floor` are not written."""

    def __init__(self, stream: TextIO, floor: int) -> None:
        self._stream, self._floor = stream, floor

    def write(self, exchanges: Iterable[Ended]) -> None:
        """Write a line for each exchange, in one write."""
        lines = [self._line(exchange, at) for exchange, at in exchanges if _NUMBERS[level(exchange)] >= self._floor]
        if lines:
            self._stream.write("".join(lines))
            self._stream.flush()

    def _line(self, exchange: Exchange, at: float) -> str:
        found = fields(exchange)
        found |= {"event": "exchange", "level": level(exchange), "timestamp": datetime.fromtimestamp(at, UTC)}
        return msgspec.json.encode(found, enc_hook=str).decode() + "\n"


class PrettyLines:
    """Writes one line for each request as a person reads it (`pretty`). Lines below the level `floor` are not
    written."""

    def __init__(self, stream: TextIO, floor: int, encoding: str) -> None:
        self._stream, self._floor = stream, floor
        self._arrow = "→" if encoding.lower().startswith("utf") else "->"

    def write(self, exchanges: Iterable[Ended]) -> None:
        """Write a line for each exchange."""
        for exchange, at in exchanges:
            if _NUMBERS[level(exchange)] >= self._floor:
                line = pretty(exchange, at, colours=self._stream.isatty(), arrow=self._arrow)
                self._stream.write(line + "\n")
        self._stream.flush()


class ExchangeLog:
    """Writes records. Levels: `error` for a bug of ours, `warning` for what an operator should look into, `info` for
    everything else, also for a refusal: that is a decision for a person, not an outage."""

    def __init__(self, logger: WrappedLogger, lines: JsonLines | PrettyLines) -> None:
        self._logger, self._lines = logger, lines
        self.is_json = isinstance(lines, JsonLines)

    def exchanges(self, ended: Sequence[Ended]) -> None:
        """Write one line for each exchange that ended."""
        self._lines.write(ended)

    def event(self, name: str, level: str = "info", **found: Any) -> None:
        """Write one line for something that is no exchange."""
        getattr(self._logger, level)(name, **found)

    def summary_run(self, run: SummaryRun) -> None:
        """Write one line for a call of the summary model."""
        level = "info" if run.outcome == "made" else "warning"
        found = msgspec.structs.asdict(run) | {
            "seconds": round(run.seconds, 3),
            "model": run.model[:LONGEST],
        }
        for name in ("prices", *(name for name in ("reason", "background") if not found[name])):
            del found[name]
        getattr(self._logger, level)("summary", **found)

    def redis(self, answers: bool, cause: str) -> None:
        """Write one line when Redis stops answering, or answers again. `cause` is one word: timeout, connection."""
        if answers:
            self._logger.info("redis", answers=True)
        else:
            self._logger.warning("redis", answers=False, cause=cause)

    def bug(self, request_id: str, error: BaseException) -> None:
        """Write one line for an unexpected error: its type and place, not its message."""
        self._logger.error("bug", request_id=request_id[:LONGEST], **_place(error))


def _place(error: BaseException) -> dict[str, Any]:
    return {"error": type(error).__qualname__, "where": _frames(error.__traceback__)}


def _frames(trace: TracebackType | None) -> list[str]:
    """The innermost eight frames as `file:line function`."""
    return [f"{f.filename}:{f.lineno} {f.name}" for f in traceback.extract_tb(trace)[-8:]]


def _without_messages(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Replace an exception's message and source lines by its type and place."""
    info = event.pop("exc_info", None)
    error = info[1] if isinstance(info, tuple) else info if isinstance(info, BaseException) else sys.exception()
    if info and error is not None:
        event.update(_place(error))
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
    """Set up this process's log, to `stream` (standard output by default), and return the writer of records."""
    encoding = getattr(stream or sys.stdout, "encoding", None) or "utf-8"
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
    lines = JsonLines(stream, level) if render is _json else PrettyLines(stream, level, encoding)
    return ExchangeLog(logger.bind(), lines)


def _route_libraries(stream: TextIO, level: int, render: Processor) -> None:
    """Write what libraries log through `logging` in the same form."""
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
