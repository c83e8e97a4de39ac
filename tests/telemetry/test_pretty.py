"""The line of a request for a person: what is in it, and that nobody can forge another."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from trimtab.telemetry.pretty import pretty
from trimtab.telemetry.record import Exchange

from .exchanges import PASSED, SHAPED

AT = 1_767_323_045.0


SEEN = ("request_id", "path", "method", "endpoint", "outcome", "status")


def line(exchange: Exchange, **options: object) -> str:
    return pretty(exchange, AT, **options)[9:]  # type: ignore[arg-type]


def test_a_shaped_request_shows_what_was_done() -> None:
    shown = line(SHAPED)
    tokens = SHAPED.tokens
    assert shown.startswith(f"{SHAPED.status} {SHAPED.model} shaped  {tokens.original:,} → {tokens.sent:,} of ")
    assert ", ".join(f"{edited.stage} {edited.count}" for edited in SHAPED.edits) in shown
    assert shown.endswith(f"ms  {SHAPED.request_id}")


def test_a_passed_one_shows_its_tokens_once() -> None:
    assert f"passed  {PASSED.tokens.sent:,} of {PASSED.tokens.budget:,} tokens  " in line(PASSED)


def test_a_path_that_is_not_managed_shows_method_and_path() -> None:
    other = Exchange(
        request_id="r", path="passthrough", method="GET", endpoint="/v1/models", outcome="passed", status=200
    )
    assert line(other) == "200 GET /v1/models passed  r"


def test_trouble_is_named() -> None:
    failed = replace(PASSED, outcome="upstream_error", status=502, calls=(), error_code="upstream_unreachable")
    assert "  upstream_unreachable  " in line(failed)
    assert "  without plan  " in line(replace(PASSED, fail_open="plan"))


@pytest.mark.parametrize(("status", "colour"), [(200, "\x1b[32m"), (404, "\x1b[33m"), (502, "\x1b[31m"), (0, "")])
def test_on_a_terminal_the_status_has_a_colour(status: int, colour: str) -> None:
    assert line(replace(PASSED, status=status), colours=True).startswith(colour)
    assert "\x1b" not in line(replace(PASSED, status=status))


def test_names_cannot_forge_a_line_and_ascii_is_possible() -> None:
    shown = line(replace(SHAPED, model="a\n\x1b[2J" + "x" * 1000, request_id="b\r\n"), arrow="->")
    assert shown.isascii()
    assert shown.isprintable()
    assert len(shown) < 300
