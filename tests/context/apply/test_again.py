"""What was written before is written again from places, with the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import msgspec
import pytest

from tests.support.messages import NAMED_RUN, calls, prose, result
from trimtab.context.apply.again import Change, measured, rewritten
from trimtab.context.apply.apply import apply
from trimtab.context.apply.format import CHAT
from trimtab.context.plan.plan import plan
from trimtab.context.policy import Policy
from trimtab.context.read.history import history
from trimtab.context.read.memo import Memo
from trimtab.dialects.messages.writing import FORMAT as MESSAGES


def compact(raw: bytes) -> bytes:
    return msgspec.json.encode(msgspec.json.decode(raw))


RESULT = compact(result("a", "src/app.py is 12,345 bytes long\n" + prose(300)))
COMPACT = [compact(raw) for raw in NAMED_RUN]


def test_the_second_time_nothing_is_read() -> None:
    memo, key = Memo(), b"digest"
    written = rewritten(RESULT, key, Change("cleared", 80), CHAT, memo)
    assert written == CHAT.rewrite(RESULT, "cleared", 80)
    unreadable = msgspec.structs.replace(CHAT, rewrite=None)
    assert rewritten(RESULT, key, Change("cleared", 80), unreadable, memo) == written


def test_another_edit_of_the_same_message_is_another() -> None:
    memo, key = Memo(), b"digest"
    rewritten(RESULT, key, Change("cleared", 80), CHAT, memo)
    assert rewritten(RESULT, key, Change("cleared", 40), CHAT, memo) == CHAT.rewrite(RESULT, "cleared", 40)


def test_what_cannot_be_traced_is_written_each_time() -> None:
    """The word is in the source only with other escapes."""
    raw = calls("a")
    odd = raw.replace(b'"a"', b'"\\u0061bc"')
    memo = Memo()
    for _ in range(4):
        assert rewritten(odd, b"k", Change("inputs_cleared"), CHAT, memo) == CHAT.rewrite(odd, "inputs_cleared", 0)


@pytest.mark.parametrize("summary", [None, "It was about module_3 and table_1."])
@pytest.mark.parametrize("raws", [COMPACT, NAMED_RUN], ids=["compact", "as Python writes it"])
def test_a_plan_is_carried_out_the_same_way_each_time(raws: Sequence[bytes], summary: str | None) -> None:
    memo = Memo()
    read = history(raws, (), memo)
    made = plan(read, Policy(), 2_200, memo)
    assert made.gap is not None
    assert len(made.gap.extract) > 5
    first = apply(raws, made, summary)
    for _ in range(4):
        assert apply(raws, made, summary, views=read.views, memo=memo) == first


def with_mark(raw: bytes) -> bytes:
    """The block as a client sends it at another step: with a mark for the provider's cache."""
    return compact(raw)[:-1] + b',"cache_control":{"type":"ephemeral"}}'


@pytest.mark.parametrize("amount", [0, 40])
def test_a_mark_for_the_cache_may_come_and_go(amount: int) -> None:
    """A digest does not tell messages apart that differ in it, but their bytes stand in other places."""
    plain = msgspec.json.encode({"type": "tool_result", "tool_use_id": "a", "content": "src/app.py " + "is long " * 99})
    marked, first = with_mark(plain), plain.replace(b"{", b'{"cache_control":{"type":"ephemeral"},', 1)
    for order in permutations([plain, marked, first]):
        memo = Memo(view=MESSAGES.view, digest=MESSAGES.digest)
        assert measured(order[0], MESSAGES.view(order[0]), "cleared", amount, MESSAGES, memo) > 0
        for raw in [raw for raw in order for _ in range(3)]:
            key = MESSAGES.digest(raw)
            assert key == MESSAGES.digest(plain)
            written = rewritten(raw, key, Change("cleared", amount), MESSAGES, memo)
            assert written == MESSAGES.rewrite(raw, "cleared", amount)
