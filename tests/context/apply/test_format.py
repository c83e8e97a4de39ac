"""A format given to planning and applying is the one that they use."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from tests.support.messages import prose, user
from trimtab.context.apply.apply import apply
from trimtab.context.apply.format import CHAT, AsChat
from trimtab.context.edits import Edit, Plan
from trimtab.context.plan.plan import plan
from trimtab.context.policy import Policy, ShapingSettings
from trimtab.context.read.history import history
from trimtab.context.read.memo import Memo


def _cut(raw: bytes | Raw, stage: str, amount: int) -> bytes:
    return msgspec.json.encode({"role": "user", "content": f"{stage} {amount}"})


FORMAT = msgspec.structs.replace(CHAT, rewrite=_cut)


def test_applying_writes_with_the_format() -> None:
    made = Plan(10, 5, 5, True, (Edit("truncated", 0, 10, 5, "long", 7),))
    assert apply([user("x")], made, format=FORMAT) == [_cut(b"", "truncated", 7)]


def test_planning_measures_with_the_format() -> None:
    raws, memo = [user(prose(500)), user("And?")], Memo(view=FORMAT.view, digest=FORMAT.digest)
    rules = Policy(ShapingSettings(max_message_chars=100, truncate="always"))
    found = plan(history(raws, (), memo), rules, 10_000, memo, FORMAT)
    assert found.edits[0].tokens_after == memo.view(_cut(b"", "truncated", 100)).tokens


def test_messages_are_read_as_chat_one_by_one() -> None:
    read = AsChat([b"1", b"2", b"3"], msgspec.structs.replace(CHAT, as_chat=lambda raw: b"m" + bytes(raw)))
    assert (len(read), read[1], read[1:]) == (3, b"m2", [b"m2", b"m3"])
