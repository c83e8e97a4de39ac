"""What one prefix knows of all its messages."""

from __future__ import annotations

from trimtab.context.read.prefix import Prefix, chained, extended
from trimtab.context.read.views import View
from trimtab.wire.cuts import Chunk


def test_a_prefix_knows_of_all_its_messages() -> None:
    views = [View("user", n, digest=b"%d" % n) for n in (1, 2, 4)]
    spans = [slice(0, 5), slice(6, 10), slice(11, 20)]
    first = Prefix(views[:2], spans[:2], 3, (1,), 2, chained(views[:2])[-1])
    whole = extended(first, 2, views[2:], spans[2:], {2: (slice(0, 3),)}, b"digest")
    assert whole.parts() == [first, whole]
    chunks = [Chunk(0, 0, spans[:2], {}), Chunk(2, 2, spans[2:], {2: (slice(0, 3),)})]
    assert whole.all() == (views, spans)
    assert whole.chunks() == chunks
    assert (first.is_cut, whole.is_cut, whole.moves) == (False, True, False)
    assert extended(whole, 3, [], [], {3: ()}, b"").moves
    assert (whole.tokens, whole.count, whole.all_marked(), whole.digest) == (7, 3, (1,), b"digest")
    assert whole.chain == chained(views)[-1]


def test_marks_are_counted_from_the_first_message() -> None:
    first = extended(None, 0, [View("user", 1), View("user", 1, has_mark=True)], [], {}, b"")
    whole = extended(first, 2, [View("user", 1, has_mark=True)], [], {}, b"")
    assert whole.all_marked() == (1, 2)
    assert whole.marked == (2,)  # kept once: else a long conversation of marked messages would keep millions of numbers
