"""Whatever was read of a conversation before, a body is read and written as if it were the first: in every dialect."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dialects import items, turns
from tests.support.messages import prose
from trimtab.context.apply.apply import apply
from trimtab.context.plan.plan import plan
from trimtab.context.policy import Policy
from trimtab.context.read.history import Reader
from trimtab.context.read.memo import Memo
from trimtab.context.read.prefixes import Prefixes
from trimtab.dialects.chat import CHAT
from trimtab.dialects.dialect import Dialect
from trimtab.dialects.messages import MESSAGES
from trimtab.dialects.paths import DIALECTS
from trimtab.dialects.responses import RESPONSES


class Read:
    """One body, read and written by a process that may have read others."""

    def __init__(self, dialect: Dialect, stride: int = 64) -> None:
        self._dialect, self._memo = dialect, Memo(view=dialect.format.view, digest=dialect.format.digest)
        self._reader = Reader(self._memo, Prefixes(stride=stride), dialect.decode)
        self.new = 0  # bytes that were read

    def all_of(self, body: bytes, budget: int) -> tuple[Any, ...]:
        """Everything that is made of it."""
        dialect, reading = self._dialect, self._reader.read(body)
        history, request = self._reader.history(reading), reading.request
        self.new = reading.new
        made = plan(history, Policy(), budget, self._memo, dialect.format)
        sent = dialect.render(request, apply(request.messages, made, format=dialect.format), {})
        elements = [bytes(raw) for raw in request.messages]
        return history.views, history.tokens, history.marked, len(request.messages), elements, made, sent


def compare(dialect: Dialect, bodies: list[bytes], budget: int, stride: int = 64) -> int:
    """Bytes of the last body that were not read before."""
    known = Read(dialect, stride)
    for body in bodies:
        assert known.all_of(body, budget) == Read(dialect).all_of(body, budget)
    return known.new


MARK = {"type": "ephemeral"}
KINDS = st.sampled_from(["cycle", "parallel", "text", "system", "pinned", "odd", "role", "string"])
DUMPS: Any = st.sampled_from([{}, {"separators": (",", ":")}, {"indent": 1}])


@st.composite
def conversations(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Messages of Anthropic's API, legal or not."""
    out = turns.read([turns.user("Read every file.")])
    for n, kind in enumerate(draw(st.lists(KINDS, max_size=14))):
        made = turns.read(turns.cycle(n, prose(draw(st.sampled_from([2, 60]))), 3 if kind == "parallel" else 1))
        if kind == "text":
            made[1]["content"].append(turns.text("Go on."))
        elif kind == "system":
            made.append({"role": "system", "content": "Mind the rules."})
        elif kind == "pinned":
            made[1]["pinned"] = draw(st.booleans())
        elif kind == "odd":
            made[1] = {"content": made[1]["content"], "metadata": {"content": made[1]["content"]}, "role": "user"}
        elif kind == "role":
            made[1]["content"][0]["role"] = "user"
        elif kind == "string":
            made.append({"role": "user", "content": 'a "tool_result"'})
        out += made
    return out


@given(conversations(), DUMPS, st.sampled_from([30, 200, 10_000]), st.booleans())
def test_messages_step_by_step(messages: list[dict[str, Any]], dump: Any, budget: int, marks: bool) -> None:
    """Each step has one message more; the last block of each may carry a mark, which moves on."""
    bodies = []
    for n in range(1, len(messages) + 1):
        listed = [*messages[:n]]
        if marks and isinstance(listed[-1]["content"], list):
            last = [*listed[-1]["content"][:-1], {**listed[-1]["content"][-1], "cache_control": MARK}]
            listed[-1] = {**listed[-1], "content": last}
        bodies.append(json.dumps({"model": "m", "messages": listed, "tools": [{"name": "t"}]}, **dump).encode())
    compare(MESSAGES, bodies, budget)


@given(conversations(), DUMPS, st.sampled_from([30, 200, 10_000]))
def test_blocks_in_a_chat_step_by_step(messages: list[dict[str, Any]], dump: Any, budget: int) -> None:
    listed = [*messages, *({"role": ("user", "assistant")[n % 2], "content": prose(60)} for n in range(4))]
    bodies = [json.dumps({"messages": listed[:n], "model": "m"}, **dump).encode() for n in range(1, len(listed) + 1)]
    compare(CHAT, bodies, budget)


@given(st.lists(st.booleans(), max_size=20), DUMPS, st.sampled_from([30, 200, 10_000]))
def test_items_step_by_step(parallel: list[bool], dump: Any, budget: int) -> None:
    listed = [items.message("Read every file.")]
    for n, several in enumerate(parallel):
        listed += items.cycle(n, prose(20), 3 if several else 1)
    read = [msgspec.json.decode(raw) for raw in listed]
    bodies = [json.dumps({"input": read[:n], "model": "m"}, **dump).encode() for n in range(1, len(read) + 1)]
    compare(RESPONSES, bodies, budget)


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_a_conversation_is_read_once(dialect: Dialect) -> None:
    listed: dict[str, list[bytes]] = {
        "chat": [items.encoded(role=("user", "assistant")[n % 2], content=prose(60)) for n in range(60)],
        "responses": [items.message("Read."), *(raw for n in range(20) for raw in items.cycle(n, prose(60)))],
        "messages": [turns.user("Read."), *(raw for n in range(20) for raw in turns.cycle(n, prose(60), 2))],
    }
    raws = [msgspec.Raw(raw) for raw in listed[dialect.name]]
    bodies = [msgspec.json.encode({dialect.listed: raws[:n]}) for n in range(1, len(raws) + 1)]
    assert compare(dialect, bodies, 10_000, stride=256) < 3_000
