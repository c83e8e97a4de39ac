"""The splices of one request: few pieces, the frame of a user message around the parts that are left of it, and
stretches in which nothing changes when what follows does."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from tests.dialects.turns import answer, cycle, system, text, user
from tests.support.messages import result
from trimtab.context.apply.again import Change
from trimtab.context.apply.format import CHAT, Format
from trimtab.context.apply.origins import slices
from trimtab.context.apply.splicing import LEAST, Splice, Splicing, Stretch, Written
from trimtab.context.apply.writing import GAP, Writing
from trimtab.context.edits import Edit, Gap, Plan, Stage
from trimtab.context.read.history import history
from trimtab.context.read.memo import Memo
from trimtab.dialects.messages import MESSAGES
from trimtab.wire.chat import decode
from trimtab.wire.messages import Messages, Parts

TASK = [user("Task."), answer(text("I look."))]
FORMAT = MESSAGES.format


def body(*messages: bytes) -> bytes:
    return b'{"messages":[' + b",".join(messages) + b"]}"


def splicing(data: bytes, *edits: Edit, gap: Gap | None = None) -> Splicing:
    messages = MESSAGES.decode(data).messages
    assert isinstance(messages, Parts)
    return splicing_of(messages, FORMAT, *edits, gap=gap)


def splicing_of(messages: Messages | Parts, format: Format, *edits: Edit, gap: Gap | None = None) -> Splicing:
    memo, plan = Memo(view=format.view, digest=format.digest), Plan(9, 9, 9, True, edits=edits, gap=gap)
    views = history(messages, (), memo).views
    return Splicing(Writing(messages, plan, None, "system", format, views, memo), messages)


def dropped(*indexes: int) -> list[Edit]:
    return [edit("dropped", i) for i in indexes]


def edit(stage: Stage, index: int) -> Edit:
    return Edit(stage, index, 9, 0, "")


def only(stretches: Sequence[Stretch]) -> tuple[Splice, ...]:
    (stretch,) = stretches
    return stretch.splices


def written(splices: Sequence[Splice], data: bytes) -> bytes:
    assert all(isinstance(splice, array) for splice in splices)
    return b"".join([piece for splice in splices if isinstance(splice, array) for piece in slices(splice, data)])


def read(splices: Sequence[Splice], data: bytes) -> list[Any]:
    found: list[Any] = msgspec.json.decode(b"[%b]" % written(splices, data).strip(b","))
    return found


def test_messages_that_stay_are_one_piece() -> None:
    data = body(*TASK, *cycle(1, "found", 2), *cycle(2, "too", 2))
    (whole,) = only(splicing(data).stretches(0, 8))
    assert isinstance(whole, array)
    assert list(whole) == [len(b'{"messages":['), len(data) - 2]


def test_what_is_left_of_messages_side_by_side_comes_together() -> None:
    """A result of one message and a result of another, between which the answer has gone."""
    data = body(*TASK, *cycle(1, "found", 2), *cycle(2, "too", 2))
    found = only(splicing(data, *dropped(2, 4, 5, 6)).stretches(0, 8))
    assert [block["tool_use_id"] for block in read(found, data)[2]["content"]] == ["toolu_1_0", "toolu_2_1"]


@pytest.mark.parametrize(
    ("at", "before", "after"),
    [(2, ["user", "assistant"], ["assistant", "user"]), (4, ["user", "assistant", "assistant", "user"], ["user"])],
)
def test_the_gap_divides_a_message(at: int, before: list[str], after: list[str]) -> None:
    data = body(*TASK, *cycle(1, "found", 2))
    first, gap, rest = only(splicing(data, gap=Gap(at, 9)).stretches(0, 5))
    assert gap == GAP
    assert [[message["role"] for message in read([part], data)] for part in (first, rest)] == [before, after]


def test_a_system_message_moves_behind_the_gap() -> None:
    """A user message stands in the gap, and a system message has its place before an answer."""
    data = body(user("Task."), system("Mind."), *cycle(1, "found"), answer(text("Done.")))
    before, _, after = only(splicing(data, *dropped(2, 3), gap=Gap(2, 9)).stretches(0, 5))
    assert [message["role"] for message in read([before], data)] == ["user"]
    assert [message["role"] for message in read([after], data)] == ["system", "assistant"]


def test_what_has_no_origins_is_written_each_time() -> None:
    data = body(*TASK, *cycle(1, "found", 2))
    (stretch,) = splicing(data, edit("cleared", 3)).stretches(0, 5)
    assert stretch.waits
    assert stretch.splices[1] == Written(3, Change("cleared", 0))
    assert [type(splice) for splice in stretch.splices] == [array, Written, array]


def test_messages_of_a_chat_are_by_themselves() -> None:
    data = body(*[result(str(n), "found") for n in range(6)])
    messages = decode(data).messages
    assert isinstance(messages, Messages)
    found = only(splicing_of(messages, CHAT, *dropped(2)).stretches(0, 6))
    assert written(found, data) == data[len(b'{"messages":[') : -2].replace(b",".join([bytes(messages[2]), b""]), b"")


def test_stretches_end_where_what_is_settled_does() -> None:
    data = body(*[result(str(n), "found") for n in range(4 * LEAST)])
    messages = decode(data).messages
    assert isinstance(messages, Messages)
    gone = dropped(*range(1, 2 * LEAST))
    stretches = splicing_of(messages, CHAT, *gone).stretches(0, len(messages), 3 * LEAST + 5)
    assert [stretch.start for stretch in stretches] == [0, 2 * LEAST, 3 * LEAST, 3 * LEAST + 5]
    assert len(read(stretches[0].splices, data)) == 1
    assert [len(read(stretch.splices, data)) for stretch in stretches[1:]] == [LEAST, 5, LEAST - 5]


def test_no_stretch_begins_where_parts_may_come_together() -> None:
    """What is left of a user message waits for what follows, and so does a system message that has moved."""
    parts = [*TASK, *cycle(1, "found", 2), system("Mind."), *cycle(2, "too", 2)]
    data = body(*parts)
    for settled in range(10):
        stretches = splicing(data, *dropped(3)).stretches(0, 9, settled)
        assert len(stretches) == (1 if settled < 1 else 2)
        assert stretches[-1].start in (0, 1, 2, 3, 4, 7)
        assert [m for stretch in stretches for m in read(stretch.splices, data)] == read(
            only(splicing(data, *dropped(3)).stretches(0, 9)), data
        )


def test_a_stretch_is_made_again_by_itself() -> None:
    data = body(*TASK, *cycle(1, "found", 2), *cycle(2, "too", 2))
    of = splicing(data, *dropped(2, 3, 4))
    first, last = of.stretches(0, 8, 5)
    assert of.stretches(first.start, last.start) == [first]
    assert of.stretches(last.start, 8) == [last]
