"""A digest finds the same bytes again, wherever they lie, and holds no text."""

from __future__ import annotations

import msgspec

from trimtab.context.read.digest import digest


def test_the_same_bytes_have_the_same_digest_as_bytes_and_as_a_slice_of_a_body() -> None:
    body = b'[{"role":"user"},{"role":"tool"}]'
    first, second = msgspec.json.decode(body, type=list[msgspec.Raw])
    assert digest(first) == digest(b'{"role":"user"}')
    assert digest(first) != digest(second)


def test_a_digest_tells_nothing_of_a_long_text() -> None:
    assert b"secret" not in msgspec.json.encode(digest(b"secret " * 1000))
