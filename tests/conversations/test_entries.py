"""Entries in bytes: sealed at their place, and items that come out as they went in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trimtab.conversations.entries import (
    Entry,
    Header,
    Item,
    Record,
    cut,
    digests_of,
    joined,
    open_entry,
    open_record,
    seal_entry,
    seal_record,
)
from trimtab.store.sealed import Keyring

ONE, OTHER = Keyring().tenant(b"Bearer one"), Keyring().tenant(b"Bearer other")
ENTRY = Entry([Item("msg_1", [b'{"role":"user"}'], True, True)], Header("chat", 5, b"{}", "r:1", 3))
IMAGE = b"data:image/png;base64," + b"iVBORw0KGgo" * 10


def test_an_entry_is_read_as_it_was_stored() -> None:
    assert open_entry(ONE, "log", 3, seal_entry(ONE, "log", 3, ENTRY)) == ENTRY


def test_an_entry_opens_for_its_tenant_at_its_own_place_alone() -> None:
    sealed = seal_entry(ONE, "log", 3, ENTRY)
    assert b"role" not in sealed
    assert open_entry(OTHER, "log", 3, sealed) is None
    assert open_entry(ONE, "log", 4, sealed) is None
    assert open_entry(ONE, "another", 3, sealed) is None
    assert open_entry(ONE, "log", 3, sealed[:-1] + bytes([sealed[-1] ^ 1])) is None


def test_a_record_is_read_as_it_was_stored_by_its_tenant() -> None:
    record = Record("r:1", 4, b'{"id":"resp_1"}')
    sealed = seal_record(ONE, "key", record)
    assert open_record(ONE, "key", sealed) == record
    assert open_record(OTHER, "key", sealed) is None
    assert open_record(ONE, "key", None) is None


def test_only_data_urls_above_the_bound_are_cut_out() -> None:
    raw = b'[{"url":"%b"},{"url":"data:image/png;base64,AAAA"},{"text":"see \\"data:%b\\""}]' % (IMAGE, IMAGE[5:])
    pieces, media = cut(raw, 50)
    assert list(media.values()) == [IMAGE]
    assert (len(pieces), pieces[0]) == (3, b'[{"url":"')
    assert joined(Item("i", pieces), media).raw == raw
    assert cut(raw, 1000) == ([raw], {})


def test_the_same_image_twice_is_stored_once() -> None:
    raw = b'["%b","%b"]' % (IMAGE, IMAGE)
    pieces, media = cut(raw, 50)
    assert len(media) == 1
    assert digests_of([Entry([Item("a", pieces)]), Entry([Item("b", pieces)])]) == list(media)
    assert joined(Item("i", pieces), media).raw == raw


parts = st.sampled_from([b'"', b"data:", b"image/png", b";base64,", b"AAAA" * 20, b"\\", b"/", b"x", b",", IMAGE])


@given(st.lists(parts, max_size=12).map(b"".join))
def test_any_bytes_come_out_as_they_went_in(raw: bytes) -> None:
    pieces, media = cut(raw, 20)
    assert joined(Item("i", pieces), media).raw == raw
