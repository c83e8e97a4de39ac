"""What was read of a message is found again by its bytes, within bounds."""

from __future__ import annotations

from hypothesis import given, settings

from tests.context.histories import histories
from tests.support.messages import prose, user
from trimtab.context.read.memo import Memo
from trimtab.context.read.views import view


def test_a_message_seen_before_is_not_read_again() -> None:
    memo = Memo()
    assert memo.view(user("x")) is memo.view(bytearray(user("x")))  # type: ignore[arg-type]


@settings(max_examples=40, deadline=None)
@given(histories)
def test_memory_of_any_size_says_what_reading_says(raws: list[bytes]) -> None:
    for capacity in (2, 8, 1_000):
        memo = Memo(capacity)
        for _ in range(2):
            assert memo.views(raws) == [view(raw) for raw in raws]


def test_memory_is_bounded_and_what_is_in_use_stays() -> None:
    memo = Memo(capacity=10)
    used = memo.view(user("used"))
    for k in range(100):
        memo.view(user(str(k)))
        assert memo.view(user("used")) is used
    assert len(memo._young) + len(memo._old) <= 10


def test_what_weighs_more_counts_as_more_however_it_came() -> None:
    """Kept first, kept again with another weight, and moved from the old generation to the young one."""
    memo = Memo(capacity=200)
    for k in range(1_000):
        memo.put(k, "light")
        memo.put(k, "heavy", 10)
        for used in range(max(0, k - 12), k):
            memo.get(used)
        assert memo.get(k) == "heavy"
        assert 10 * (len(memo._young) + len(memo._old)) <= 200


def test_extras_are_counted_apart_from_messages_of_the_same_bytes() -> None:
    memo, raw = Memo(), user(prose(300))
    assert memo.view(raw).tokens != memo.extras([raw])[0]
    assert memo.extras([raw, raw]) == 2 * memo.extras([raw])
    assert memo.extras([]) == []
