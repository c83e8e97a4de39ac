"""The level of a line, and what is written in it: empty fields and a client's own words are not."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from trimtab.telemetry.log_fields import fields, level
from trimtab.telemetry.record import Exchange

from .exchanges import PASSED, REFUSED


@pytest.mark.parametrize(
    ("exchange", "expected"),
    [
        (PASSED, "info"),
        (REFUSED, "info"),
        (replace(PASSED, outcome="abandoned"), "info"),
        (replace(PASSED, outcome="upstream_error"), "warning"),
        (replace(PASSED, outcome="overloaded"), "warning"),
        (replace(PASSED, fail_open="redis"), "warning"),
        (replace(PASSED, outcome="failed"), "error"),
    ],
)
def test_levels(exchange: Exchange, expected: str) -> None:
    assert level(exchange) == expected


@pytest.mark.parametrize(
    ("endpoint", "written"),
    [
        ("/v1/chat/completions", "/v1/chat/completions"),
        ("/v1/files/my-secret-plan.pdf", "/v1/files/*"),
        ("/", "/"),
    ],
)
def test_a_word_of_a_path_that_is_not_the_apis_own_is_not_written(endpoint: str, written: str) -> None:
    assert fields(replace(PASSED, endpoint=endpoint))["endpoint"] == written


def test_what_is_empty_is_left_out() -> None:
    assert fields(Exchange(request_id="r", path="chat", outcome="client_error", status=400)) == {
        "request_id": "r", "path": "chat", "outcome": "client_error", "status": 400,
    }  # fmt: skip
