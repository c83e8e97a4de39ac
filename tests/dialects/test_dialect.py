"""What holds for every dialect."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.dialects.dialect import Dialect
from trimtab.dialects.paths import DIALECTS
from trimtab.errors import InvalidRequest, UpstreamTimeout
from trimtab.wire.request import Unreadable

EACH = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)


@EACH
def test_a_body_that_is_sent_unchanged_keeps_its_bytes(dialect: Dialect) -> None:
    body = msgspec.json.encode({dialect.listed: [{"role": "user", "content": "hi"}], "max_tokens": 8, "x": [1.50]})
    request = dialect.decode(body)
    assert dialect.render(request, request.messages, {}) == body
    assert dialect.render(request, None, {"n": 1, "x": None}) == body.replace(b',"x":[1.5]', b',"n":1')


@EACH
def test_the_fields_that_choose_a_route_are_read(dialect: Dialect) -> None:
    body = msgspec.json.encode({dialect.listed: [], "provider": {"only": ["a"]}, "models": []})
    assert [bytes(raw) for raw in dialect.decode(body).routing] == [b'{"only":["a"]}']


@EACH
@given(st.binary(max_size=80))
def test_any_bytes_are_a_request_or_a_clear_error(dialect: Dialect, raw: bytes) -> None:
    with suppress(InvalidRequest, Unreadable):
        dialect.decode(raw)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["type", "role", "content"]), inner),
    max_leaves=12,
)


@EACH
@given(JSON)
def test_any_json_has_a_view_and_can_be_read_for_a_summary(dialect: Dialect, value: object) -> None:
    raw = msgspec.json.encode(value)
    assert dialect.format.view(raw).tokens > 0
    dialect.format.as_chat(raw)
    assert dialect.usage(raw, None) is None
    assert dialect.says_nothing(raw) in (True, False)
    assert dialect.added(raw, {"trimtab": {}}) is None


@EACH
def test_an_error_is_one_event_with_the_message(dialect: Dialect) -> None:
    error = UpstreamTimeout("The upstream sent nothing for 600 seconds.")
    assert dialect.event(error).endswith(b"\n\n")
    assert b"sent nothing for 600 seconds" in dialect.event(error)
    assert b"sent nothing for 600 seconds" in dialect.envelope(error, "req-1")
    assert dialect.status(error) == 504
