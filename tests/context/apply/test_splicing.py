"""The splices of one request: few pieces, and the frame of a user message around the parts that are left of it."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from tests.dialects.turns import answer, cycle, system, text, user
from tests.support.messages import result
from trimtab.context.apply.origins import slices
from trimtab.context.apply.splicing import Splice, Splicing
from trimtab.context.edits import Edit, Gap, Stage
from trimtab.context.read.history import history
from trimtab.context.read.memo import Memo
from trimtab.dialects.messages import MESSAGES
from trimtab.wire.chat import decode
from trimtab.wire.messages import Messages, Parts

TASK = [user("Task."), answer(text("I look."))]
FORMAT = MESSAGES.format


def body(*messages: bytes) -> bytes:
    return b'{"messages":[' + b",".join(messages) + b"]}"


def splicing(data: bytes) -> Splicing:
    messages = MESSAGES.decode(data).messages
    assert isinstance(messages, Parts)
    memo = Memo(view=FORMAT.view, digest=FORMAT.digest)
    return Splicing(history(messages, (), memo), messages, FORMAT, memo)


def dropped(*indexes: int) -> list[Edit]:
    return [edit("dropped", i) for i in indexes]


def edit(stage: Stage, index: int) -> Edit:
    return Edit(stage, index, 9, 0, "")


def written(splices: Sequence[Splice], data: bytes) -> bytes:
    assert all(isinstance(splice, array) for splice in splices)
    return b"".join([piece for splice in splices if isinstance(splice, array) for piece in slices(splice, data)])


def read(splices: Sequence[Splice], data: bytes) -> list[Any]:
    found: list[Any] = msgspec.json.decode(b"[%b]" % written(splices, data))
    return found


def test_messages_that_stay_are_one_piece() -> None:
    data = body(*TASK, *cycle(1, "found", 2), *cycle(2, "too", 2))
    ((whole,),) = splicing(data).around(None, [], 8)
    assert list(whole) == [len(b'{"messages":['), len(data) - 2]


def test_what_is_left_of_messages_side_by_side_comes_together() -> None:
    """A result of one message and a result of another, between which the answer has gone."""
    data = body(*TASK, *cycle(1, "found", 2), *cycle(2, "too", 2))
    (found,) = splicing(data).around(None, dropped(2, 4, 5, 6), 8)
    assert [block["tool_use_id"] for block in read(found, data)[2]["content"]] == ["toolu_1_0", "toolu_2_1"]


@pytest.mark.parametrize(
    ("at", "before", "after"),
    [(2, ["user", "assistant"], ["assistant", "user"]), (4, ["user", "assistant", "assistant", "user"], ["user"])],
)
def test_the_gap_divides_a_message(at: int, before: list[str], after: list[str]) -> None:
    data = body(*TASK, *cycle(1, "found", 2))
    parts = splicing(data).around(Gap(at, 9), [], 5)
    assert [[message["role"] for message in read(part, data)] for part in parts] == [before, after]


def test_a_system_message_moves_behind_the_gap() -> None:
    """A user message stands in the gap, and a system message has its place before an answer."""
    data = body(user("Task."), system("Mind."), *cycle(1, "found"), answer(text("Done.")))
    before, after = splicing(data).around(Gap(2, 9), dropped(2, 3), 5)
    assert [message["role"] for message in read(before, data)] == ["user"]
    assert [message["role"] for message in read(after, data)] == ["system", "assistant"]


def test_what_has_no_origins_is_written_each_time() -> None:
    data = body(*TASK, *cycle(1, "found", 2))
    change = edit("cleared", 3)
    (found,) = splicing(data).around(None, [change], 5)
    assert [splice if isinstance(splice, Edit) else None for splice in found] == [None, change, None]


def test_messages_of_a_chat_are_by_themselves() -> None:
    data = body(*[result(str(n), "found") for n in range(6)])
    messages, memo = decode(data).messages, Memo()
    assert isinstance(messages, Messages)
    of = Splicing(history(messages, (), memo), messages, FORMAT, memo)
    (found,) = of.around(None, dropped(2), 6)
    assert written(found, data) == data[len(b'{"messages":[') : -2].replace(b",".join([bytes(messages[2]), b""]), b"")
