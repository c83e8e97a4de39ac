"""The chain of digests: a name for a prefix of the history."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from trimtab.context.plan.wanted import chain

messages = st.lists(st.binary(max_size=8), min_size=6, max_size=6)
SPANS = ((0, 2), (2, 3), (3, 6))


@given(messages)
def test_a_longer_chain_begins_with_the_shorter(history: list[bytes]) -> None:
    assert chain(history, SPANS)[:2] == chain(history, SPANS[:2])


@given(messages, messages)
def test_equal_links_mean_equal_messages(one: list[bytes], other: list[bytes]) -> None:
    for link, (_, stop) in zip(zip(chain(one, SPANS), chain(other, SPANS), strict=True), SPANS, strict=True):
        assert (link[0] == link[1]) == (one[:stop] == other[:stop])


def test_bytes_and_raw_name_the_same() -> None:
    history = [b'{"role":"user"}', b'{"role":"assistant"}']
    assert chain(history, ((0, 2),)) == chain([Raw(m) for m in history], ((0, 2),))


def test_messages_do_not_run_together() -> None:
    assert chain([b"ab", b"c"], ((0, 2),)) != chain([b"a", b"bc"], ((0, 2),))
