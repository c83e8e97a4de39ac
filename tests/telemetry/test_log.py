"""One line for each request, in one of two forms, at the right level, without text or keys; lines may be lost."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from trimtab.telemetry import open_telemetry
from trimtab.telemetry.log import ExchangeLog, Lossy, configure
from trimtab.telemetry.settings import Format, TelemetrySettings

from .exchanges import PASSED, RUN, SHAPED

JSON = TelemetrySettings(log_format="json")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


AT = 1_767_323_045.0  # 2026-01-02 03:04:05 UTC


def _lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_one_line_a_request() -> None:
    stream = io.StringIO()
    log = configure(JSON, stream)
    log.exchanges([(PASSED, AT), (SHAPED, AT + 1.5)])
    passed, shaped = _lines(stream)
    assert passed["level"] == "info"
    assert (passed["request_id"], passed["tokens_sent"], passed["cached_tokens"]) == ("r-1", 9_000, 8_000)
    assert (shaped["cleared"], shaped["truncated"], shaped["prefix_break"]) == (12, 1, "cleared")
    assert (passed["timestamp"], shaped["timestamp"]) == ("2026-01-02T03:04:05Z", "2026-01-02T03:04:06.500000Z")


def test_the_level_is_a_floor() -> None:
    stream = io.StringIO()
    log = configure(TelemetrySettings(log_format="json", log_level="error"), stream)
    log.exchanges([(PASSED, AT), (replace(PASSED, outcome="failed"), AT), (PASSED, AT)])
    log.exchanges([(PASSED, AT)])
    assert len(_lines(stream)) == 1


@pytest.mark.parametrize(
    ("log_format", "stream", "is_json"),
    [
        ("auto", io.StringIO, True),
        ("auto", Terminal, False),
        ("json", Terminal, True),
        ("pretty", io.StringIO, False),
    ],
)
def test_pretty_on_a_terminal_json_elsewhere(log_format, stream, is_json) -> None:
    out = stream()
    configure(TelemetrySettings(log_format=log_format), out).exchanges([(PASSED, AT)])
    assert out.getvalue().startswith("{") is is_json
    assert "r-1" in out.getvalue()
    assert out.getvalue().count("\n") == 1


@pytest.mark.parametrize("log_format", ["json", "pretty"])
def test_a_name_cannot_forge_a_line(log_format) -> None:
    stream = io.StringIO()
    log = configure(TelemetrySettings(log_format=log_format), stream)
    log.exchanges([(replace(PASSED, model="a\n{}" + "x" * 10_000, request_id="b\r\n\x1b[2J"), AT)])
    assert stream.getvalue().count("\n") == 1
    assert "\x1b" not in stream.getvalue()
    assert len(stream.getvalue()) < 1_500


@pytest.mark.parametrize("log_format", ["json", "pretty"])
def test_of_an_exception_the_place_is_logged_and_not_the_message(log_format) -> None:
    stream = io.StringIO()
    log = configure(TelemetrySettings(log_format=log_format), stream)
    _fail_twice(log)
    assert "SECRET" not in stream.getvalue()
    assert stream.getvalue().count("ValueError") == 2
    assert stream.getvalue().count("test_log.py") == 2


def _fail_twice(log: ExchangeLog) -> None:
    try:
        raise ValueError("SECRET of a conversation")
    except ValueError as error:
        log.bug("r-9", error)
        logging.getLogger("some.library").exception("it broke")


def test_libraries_speak_in_the_same_form_and_not_at_every_request() -> None:
    stream = io.StringIO()
    configure(JSON, stream)
    logging.getLogger("trimtab.limits").warning("the window is smaller than configured")
    logging.getLogger("httpx").info("HTTP Request: POST ...")
    (line,) = _lines(stream)
    assert (line["logger"], line["level"]) == ("trimtab.limits", "warning")


@pytest.mark.parametrize(("outcome", "level"), [("made", "info"), ("failed", "warning"), ("rejected", "warning")])
def test_a_summary_in_the_background_has_a_line(outcome, level) -> None:
    stream = io.StringIO()
    configure(JSON, stream).summary_run(replace(RUN, outcome=outcome))
    (line,) = _lines(stream)
    assert (line["event"], line["level"], line["tokens_in"]) == ("summary", level, 10_000)
    assert "prices" not in line


def test_what_can_be_written_is_written() -> None:
    stream = io.StringIO()
    lossy = Lossy(stream)
    assert lossy.write("a line\n") == 7
    lossy.flush()
    assert (stream.getvalue(), lossy.isatty()) == ("a line\n", False)


def test_a_full_disk_loses_lines_and_raises_nothing() -> None:
    full = Path("/dev/full").open("w")  # noqa: SIM115  closing it fails too
    lossy = Lossy(full)
    for _ in range(100):
        lossy.write("x" * 1000)
        lossy.flush()
    with pytest.raises(OSError, match="No space"):
        full.close()


def test_a_closed_stream_loses_lines_and_raises_nothing() -> None:
    stream = io.StringIO()
    stream.close()
    lossy = Lossy(stream)
    assert lossy.write("a line\n") == 0
    lossy.flush()
    assert not lossy.isatty()


@pytest.mark.parametrize("log_format", ["json", "pretty"])
def test_every_kind_of_line_may_be_lost(log_format: Format) -> None:
    stream = io.StringIO()
    telemetry = open_telemetry(TelemetrySettings(log_format=log_format), stream=stream)
    stream.close()
    telemetry.observe(PASSED)
    telemetry.log.bug("r", ValueError("x"))
