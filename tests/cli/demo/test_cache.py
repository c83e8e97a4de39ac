"""The model of a provider's prefix cache."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("bpe_openai", reason="the demo's tokenizer: pip install 'trimtab[demo]'")

from trimtab.cli.demo.cache import REMEMBERED, PrefixCache, common, shared
from trimtab.cli.demo.counting import Counted


def message(name: str, tokens: int) -> Counted:
    return Counted(name.encode(), tokens)


A, B, C = message("aaaa", 1000), message("bbbb", 500), message("aacc", 400)


@pytest.mark.parametrize(
    ("first", "second", "hit"),
    [
        ([A, B], [A, B, C], 1408),
        ([A], [A, B], 0),
        ([A, B], [B, A], 0),
        ([A, B, A], [A, B, C], 1664),
    ],
    ids=["in steps of 128", "below 1,024", "another beginning", "half of a message"],
)
def test_what_was_read_before_is_a_hit(first: list[Counted], second: list[Counted], hit: int) -> None:
    cache = PrefixCache()
    assert cache.hit(first) == 0
    assert cache.hit(second) == hit


def test_only_the_last_requests_are_remembered() -> None:
    cache = PrefixCache()
    cache.hit([A, B])
    for number in range(REMEMBERED):
        cache.hit([message(f"other {number}", 5)])
    assert cache.hit([A, B]) == 0


@given(st.binary(max_size=40), st.binary(max_size=40), st.binary(max_size=40))
def test_the_common_beginning_is_found_whatever_follows(head: bytes, a: bytes, b: bytes) -> None:
    found = common(head + a, head + b)
    assert found >= len(head)
    assert (head + a)[:found] == (head + b)[:found]
    assert found == min(len(head + a), len(head + b)) or (head + a)[found] != (head + b)[found]


def test_a_request_shares_all_with_itself() -> None:
    assert shared([A, B, C], [A, B, C]) == 1900
