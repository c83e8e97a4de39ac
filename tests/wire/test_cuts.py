"""Where the parts of messages are, chunk by chunk."""

from __future__ import annotations

from trimtab.wire.cuts import Chunk, Cutting, Row, added

SPANS = [slice(0, 10), slice(11, 31), slice(32, 40), slice(41, 50)]
CUTS = {1: (slice(2, 5), slice(6, 9)), 2: ()}
CHUNKS = [Chunk(0, 0, SPANS[:1], {}), Chunk(1, 1, SPANS[1:3], CUTS), Chunk(3, 4, SPANS[3:], {})]


def test_each_message_and_part_has_its_place_in_the_body() -> None:
    cutting = Cutting(CHUNKS)
    assert [cutting.row(at) for at in (4, 0, 2, 1, 3)] == [
        Row(3, True, 1, SPANS[3]),
        Row(0, True, 1, SPANS[0]),
        Row(1, False, 2, slice(17, 20)),
        Row(1, True, 2, slice(13, 16)),
        Row(2, True, 1, SPANS[2]),
    ]


def test_the_cuts_of_a_message() -> None:
    cutting = Cutting(CHUNKS)
    assert [cutting.of_message(i) for i in range(4)] == [None, CUTS[1], (), None]


def test_parts_are_more_than_messages() -> None:
    assert added(CUTS) == 1
    assert added({}) == 0
