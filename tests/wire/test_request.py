"""A request of any format as a value."""

from __future__ import annotations

import pytest
from msgspec import Raw

from trimtab.wire.request import Request, Unmanaged, Unreadable

ASKED = {"include_usage": Raw(b"true")}


@pytest.mark.parametrize(
    ("options", "always", "expected"), [(None, False, False), (ASKED, False, True), (None, True, True)]
)
def test_whether_a_stream_reports_its_usage(options: dict[str, Raw] | None, always: bool, expected: bool) -> None:
    request = Request(b"", b"", [], stream_options=options, reports_usage=always)
    assert request.include_usage is expected


def test_what_the_server_holds_is_named() -> None:
    error = Unmanaged("previous_response_id")
    assert isinstance(error, Unreadable)
    assert error.reason in str(error)
