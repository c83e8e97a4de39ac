"""Packed conversations: what comes out is what went in, and how much room they take."""

from __future__ import annotations

import random
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.context.read.prefix import Prefix, extended
from trimtab.context.read.shelf import Newest, Shelf, packed, unpacked
from trimtab.context.read.views import Call, View

calls = st.builds(Call, id=st.text(max_size=8), name=st.text(max_size=8))
views = st.builds(
    View,
    role=st.sampled_from(["user", "assistant", "tool"]) | st.text(max_size=5),
    tokens=st.integers(0, 2**40),
    shape=st.sampled_from(["text", "parts", "none", "opaque"]),
    calls=st.lists(calls, max_size=3).map(tuple),
    answers=st.none() | st.text(max_size=8),
    has_mark=st.booleans(),
    digest=st.binary(min_size=16, max_size=16),
)
places = st.lists(st.integers(0, 2**40), min_size=2, max_size=2).map(lambda edges: slice(*sorted(edges)))
cuts = st.dictionaries(st.integers(0, 10_000), st.lists(places, max_size=3).map(tuple), max_size=2)
parts = st.tuples(st.lists(views, max_size=4), st.lists(places, max_size=4), cuts, st.binary(min_size=16, max_size=16))
Part = tuple[list[View], list[slice], dict[int, tuple[slice, ...]], bytes]


@given(st.lists(parts, min_size=1, max_size=4))
def test_what_comes_out_is_what_went_in(given: list[Part]) -> None:
    prefix: Prefix | None = None
    for more, spans, of_parts, digest in given:
        prefix = extended(prefix, 0 if prefix is None else prefix.count, more, spans, of_parts, digest)
    assert prefix is not None
    chain = unpacked(packed(prefix.parts()))
    assert len(chain) == len(given)
    for out, into in zip(chain, prefix.parts(), strict=True):
        for name in Prefix.__struct_fields__:
            if name != "before":
                assert getattr(out, name) == getattr(into, name)
    assert [part.before for part in chain] == [None, *chain[:-1]]


def test_a_record_is_found_by_its_newest_prefixes_and_taken_once() -> None:
    shelf, digests = Shelf(), [bytes([i]) for i in range(10)]
    shelf.put(b"record", digests)
    assert shelf.take(digests[2]) is None
    assert shelf.take(digests[7]) == b"record"
    assert [shelf.take(digest) for digest in digests] == [None] * 10


def test_records_that_share_prefixes_do_not_hide_each_other() -> None:
    shelf = Shelf()
    shelf.put(b"long", [b"a", b"b", b"c"])
    shelf.put(b"fork", [b"a", b"b", b"d"])
    assert shelf.take(b"b") == b"fork"
    assert shelf.take(b"c") == b"long"
    assert shelf.take(b"d") is None


def test_the_oldest_records_go_first_and_leave_nothing() -> None:
    shelf = Shelf(10_000)
    for i in range(1_000):
        shelf.put(bytes(1_000), [b"%d" % i, b"%d, longer" % i])
    assert len(shelf._records) == 10_000 // (1_000 + 400 + 2 * 150)
    assert len(shelf._records._longest) == 2 * len(shelf._records)
    assert shelf.take(b"0") is None
    assert shelf.take(b"999") == bytes(1_000)


@pytest.mark.parametrize(("size", "digests"), [(50, 1), (100, 2), (1_000, 4)])
def test_the_bound_holds_in_bytes(size: int, digests: int) -> None:
    """However small the records are, and with all that they are found by."""
    shelf = Shelf(2_000_000)
    tracemalloc.start()
    for _ in range(12_000):
        shelf.put(random.randbytes(size), [random.randbytes(16) for _ in range(digests)])
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 1_500_000 < held < 2_000_000 * 1.2  # dicts grow in leaps


def test_threads_may_put_and_take_at_once() -> None:
    shelf, interval = Shelf(20_000), sys.getswitchinterval()

    def work(seed: int) -> None:
        numbers = random.Random(seed)
        for _ in range(5_000):
            shelf.put(bytes(500), [b"%d" % numbers.randrange(30)])
            shelf.take(b"%d" % numbers.randrange(30))

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            assert [*threads.map(work, range(4))] == [None] * 4
    finally:
        sys.setswitchinterval(interval)


def test_what_would_take_long_to_pack_and_unpack_is_not_kept() -> None:
    shelf = Shelf(10_000)
    shelf.put(bytes(20_000), [b"b"])
    assert shelf.take(b"b") is None
    assert shelf.takes(20_000)
    assert not shelf.takes(20_001)
    assert not Shelf(0).takes(1)


def test_what_leaves_the_newest_is_told_once() -> None:
    newest = Newest[str, str](10, len)
    newest["a"], newest["b"] = "four", "five."
    assert [*newest.left()] == []
    newest["c"] = "six six"
    assert [*newest.left()] == ["four", "five."]
    assert [*newest.left()] == []
