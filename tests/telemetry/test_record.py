"""The record holds names and numbers, and once made it does not change."""

from __future__ import annotations

import typing

import msgspec
import pytest

from trimtab.telemetry import record
from trimtab.telemetry.record import STAGES, Exchange, Stage

from .exchanges import PASSED


def test_a_record_does_not_change() -> None:
    with pytest.raises(AttributeError):
        PASSED.status = 500  # type: ignore[misc]


def test_it_has_no_place_for_text_or_keys() -> None:
    """Every free string is an identifier; content would need a new field, and this list."""
    strings = {field.name for field in msgspec.structs.fields(Exchange) if field.type is str}
    assert strings == {
        "request_id", "model", "upstream", "profile", "hint", "prefix_break", "fail_open", "error_code",
        "summary_cause", "upstream_request_id", "trace_id", "method", "endpoint",
    }  # fmt: skip


def test_the_stages_are_those_of_the_vocabulary() -> None:
    assert typing.get_args(Stage) == STAGES


def test_a_record_of_next_to_nothing_can_be_made() -> None:
    least = Exchange(request_id="r", path="chat", outcome="client_error", status=400)
    assert least.usage is None
    assert least.edits == ()


def test_it_survives_the_wire() -> None:
    assert msgspec.json.decode(msgspec.json.encode(PASSED), type=record.Exchange) == PASSED
