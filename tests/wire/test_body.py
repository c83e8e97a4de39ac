"""A body as a layout. What it does for chat is in `test_chat`; here what any format may rely on."""

from __future__ import annotations

import msgspec
import pytest

from trimtab.errors import InvalidRequest
from trimtab.wire import body as layouts
from trimtab.wire.body import Layout, fields_of, is_present
from trimtab.wire.request import Request, Unreadable


class _Head(msgspec.Struct):
    input: list[msgspec.Raw]
    model: str = ""
    tools: msgspec.Raw = msgspec.Raw()


LAYOUT = Layout(_Head, "input")


def test_the_list_has_the_name_that_the_layout_gives() -> None:
    source, head, items = LAYOUT.read(b'{"model":"m","input":[{"a":1},{"b":2}],"x":1e3}')
    assert [bytes(item) for item in items] == [b'{"a":1}', b'{"b":2}']
    assert head.model == "m"
    assert [source[span] for span in items.spans or []] == [b'{"a":1}', b'{"b":2}']


def test_known_items_are_skipped_and_come_back() -> None:
    body = b'{"input":[{"a":1},{"b":2}],"model":"m"}'
    spans = LAYOUT.read(body)[2].spans
    assert spans is not None
    longer = body.replace(b"}]", b'},{"c":3}]')
    _, _, items = LAYOUT.read(longer, spans)
    assert [bytes(item) for item in items.fresh] == [b'{"c":3}']
    assert [bytes(item) for item in items] == [b'{"a":1}', b'{"b":2}', b'{"c":3}']


def test_what_is_not_named_keeps_its_bytes() -> None:
    body = b'{"x":1e3,"input":[{"a":1}],"model":"m"}'
    source, head, items = LAYOUT.read(body)
    request = Request(body, source, items, head.model)
    assert LAYOUT.render(request, [b"{}"], {"model": None, "n": 1}) == b'{"x":1e3,"input":[{}],"n":1}'


def test_a_field_of_another_type_counts_as_absent() -> None:
    assert LAYOUT.read(b'{"input":[],"model":7}')[1].model == ""


@pytest.mark.parametrize(
    ("body", "error"), [(b"{", InvalidRequest), (b"[]", Unreadable), (b'{"input":{}}', Unreadable)]
)
def test_what_cannot_be_read_says_what_is_missing(body: bytes, error: type[Exception]) -> None:
    with pytest.raises(error, match="`input`"):
        LAYOUT.read(body)


def test_a_name_that_is_not_utf_8_does_not_keep_an_object_from_being_edited() -> None:
    assert fields_of(b'{"n\xd8":1}') == {"n\ufffd": msgspec.Raw(b"1")}
    with pytest.raises(msgspec.DecodeError):
        fields_of(b"[1]")


@pytest.mark.parametrize(("raw", "expected"), [(b"", False), (b"null", False), (b"[]", False), (b"[1]", True)])
def test_present(raw: bytes, expected: bool) -> None:
    assert is_present(msgspec.Raw(raw)) is expected


def test_escapes_that_were_read_before_are_not_counted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layouts, "_MOST_BACKSLASHES", 40)
    first, second = (b'{"a":"%b"}' % (b"\\n" * n) for n in (30, 20))
    body = b'{"input":[%b,%b]}' % (first, second)
    known = [slice(len(b'{"input":['), len(b'{"input":[') + len(first))]
    with pytest.raises(Unreadable, match="escaped"):
        LAYOUT.read(body)
    assert [bytes(item) for item in LAYOUT.read(body, known)[2]] == [first, second]
    with pytest.raises(Unreadable, match="escaped"):
        LAYOUT.read(body.replace(second, second * 3), known)
