"""One element as the planner sees it, and the laws of what is sent of a conversation."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from tests.dialects.turns import (
    Bindings,
    answer,
    blocks,
    complaints,
    cycle,
    read,
    result,
    system,
    text,
    thought,
    use,
    user,
)
from tests.support.messages import prose
from trimtab.context.apply.apply import apply
from trimtab.context.edits import Plan
from trimtab.context.plan.plan import plan
from trimtab.context.policy import Policy, ShapingSettings
from trimtab.context.read.history import history
from trimtab.context.read.memo import Memo
from trimtab.context.texts import NOTE
from trimtab.dialects.messages import MESSAGES

FORMAT = MESSAGES.format
encode = msgspec.json.encode

VIEWS: list[tuple[bytes, str, bool, str | None]] = [
    # element, role, follows, answers
    (user("hi"), "user", False, None),
    (encode({"role": "user", "content": "hi"}), "user", False, None),
    (answer("hi"), "assistant", False, None),
    (system("Agents: none."), "context", True, None),
    (encode(result(1, "found")), "tool", False, "toolu_1_0"),
    (encode(result(1, [text("found")])), "tool", False, "toolu_1_0"),
    (encode(text("Go on.")), "user", False, None),
    (encode(text("<system-reminder>\nTasks.")), "context", True, None),
    (encode({"type": "image", "source": {"type": "base64", "data": "AAAA"}}), "user", False, None),
    (encode({"type": "something_new"}), "context", True, None),
    (answer({"type": "compaction", "encrypted_content": "gA"}), "system", False, None),
    (b"7", "", False, None),
]


@pytest.mark.parametrize(("raw", "role", "follows", "answers"), VIEWS)
def test_what_an_element_is_to_the_planner(raw: bytes, role: str, follows: bool, answers: str | None) -> None:
    found = FORMAT.view(raw)
    assert (found.role, found.follows, found.answers) == (role, follows, answers)
    assert found.tokens > 0


def test_thinking_is_counted_and_its_signature_is_not() -> None:
    without, with_it = FORMAT.view(answer("Look.")), FORMAT.view(answer(thought(1), "Look."))
    assert with_it.tokens == without.tokens + with_it.bound_tokens
    long = {**thought(1), "signature": "x" * 9_000}
    assert FORMAT.view(answer(long, "Look.")).tokens == with_it.tokens


MARK = {"type": "ephemeral", "ttl": "1h"}


def test_a_mark_changes_no_digest() -> None:
    plain, marked = encode(result(1, "found")), encode(result(1, "found", cache_control=MARK))
    first = encode({"cache_control": MARK, **result(1, "found")})
    assert FORMAT.digest(plain) == FORMAT.digest(marked) == FORMAT.digest(first) == FORMAT.view(marked).digest
    assert FORMAT.digest(plain) != FORMAT.digest(encode(result(1, "other")))
    assert msgspec.json.decode(FORMAT.canonical(first)) == result(1, "found")


# -- what is sent ------------------------------------------------------------------------------------------------


class Conversation:
    """What a client sends and what goes upstream, step by step."""

    def __init__(self, messages: list[bytes], **rules: Any) -> None:
        self.messages = messages
        self._policy = Policy(ShapingSettings(**rules), binds_thinking=True)

    def size(self) -> int:
        request = MESSAGES.decode(self._body(self.messages))
        return history(request.messages, (), Memo(view=FORMAT.view, digest=FORMAT.digest)).tokens

    def sent(self, budget: int, stop: int | None = None) -> tuple[Plan, list[dict[str, Any]]]:
        request = MESSAGES.decode(self._body(self.messages[:stop]))
        memo = Memo(view=FORMAT.view, digest=FORMAT.digest)
        found = plan(history(request.messages, (), memo), self._policy, budget, memo, FORMAT)
        out = MESSAGES.render(request, apply(request.messages, found, format=FORMAT), {})
        return found, msgspec.json.decode(out)["messages"]

    @staticmethod
    def _body(messages: list[bytes]) -> bytes:
        return encode({"model": "m", "max_tokens": 100, "messages": [Raw(raw) for raw in messages]})


TASK = [user("<system-reminder>\nToday.", "Read every file."), system("Agents: none.")]


def test_the_note_stands_behind_the_task_and_before_what_belongs_to_it() -> None:
    talk = Conversation([*TASK, *[raw for n in range(40) for raw in cycle(n, prose(300), 2)]])
    found, sent = talk.sent(talk.size() // 4)
    assert found.fits
    assert [message["role"] for message in sent[:4]] == ["user", "user", "system", "assistant"]
    assert blocks(sent[1])[0]["text"] == NOTE
    assert complaints(sent) == []


def test_old_results_are_cleared_and_keep_their_fields() -> None:
    steps = [raw for n in range(8) for raw in cycle(n, prose(2_000))]
    talk = Conversation([*TASK, *steps, answer(use(9)), user(result(9, "x", is_error=True, cache_control=MARK))])
    found, sent = talk.sent(talk.size() * 3 // 4)
    assert {edit.stage for edit in found.edits} == {"cleared"}
    assert sent[-1]["content"][0] == result(9, "x", is_error=True, cache_control=MARK)


def test_thinking_before_the_first_edit_stays_and_what_the_edit_unbinds_goes() -> None:
    talk = Conversation([*TASK, *[raw for n in range(8) for raw in cycle(n, prose(2_000))]])
    found, sent = talk.sent(talk.size() * 3 // 4)
    thoughts = [
        n for n, m in enumerate(m for m in sent if m["role"] == "assistant") if m["content"][0]["type"] != "text"
    ]
    assert 0 in thoughts, "the result after it is the first that was cleared"
    assert found.unbind
    assert len(thoughts) < 8


KINDS = st.sampled_from(["cycle", "parallel", "reminded", "asked", "reminder", "talk", "unknown", "marked"])


@st.composite
def conversations(draw: st.DrawFn) -> list[bytes]:
    messages = list(TASK)
    for n, kind in enumerate(draw(st.lists(KINDS, max_size=24))):
        words = prose(draw(st.sampled_from([5, 300, 3_000])))
        after: list[dict[str, Any]] = []
        if kind == "reminded":
            after = [text("<system-reminder>\n" + words)]
        elif kind == "asked":
            after = [text(words)]
        elif kind == "unknown":
            after = [{"type": "something_new", "n": n}]
        if kind == "talk":
            messages += [answer(thought(n), words), user(words)]
        else:
            messages += cycle(n, words, 3 if kind == "parallel" else 1, *after)
        if kind == "reminder":
            messages.append(system(words))
    return messages


@given(conversations(), st.floats(0.05, 1.1))
def test_what_is_sent_obeys_the_grammar(messages: list[bytes], share: float) -> None:
    talk = Conversation(messages)
    _, sent = talk.sent(max(1, int(talk.size() * share)))
    assert complaints(sent) == []


@given(conversations(), st.floats(0.1, 0.9))
def test_every_thought_that_is_kept_has_the_prefix_it_was_made_under(messages: list[bytes], share: float) -> None:
    """The conversation is sent step by step; each answer is made after what was sent."""
    talk, bindings = Conversation(messages, keep_recent=2), Bindings()
    budget = max(1, int(talk.size() * share))
    for at, message in enumerate(read(messages)):
        if message["role"] != "assistant":
            continue
        _, sent = talk.sent(budget, at)
        assert bindings.broken(sent) == []
        bindings.make(int(blocks(message)[0]["signature"].removeprefix("sig_")), sent)


@given(conversations(), st.floats(0.2, 1.1))
def test_blocks_of_unknown_type_keep_their_bytes(messages: list[bytes], share: float) -> None:
    talk = Conversation(messages)
    _, sent = talk.sent(max(1, int(talk.size() * share)))
    found = [b for m in sent for b in blocks(m) if b["type"] == "something_new"]
    assert all(set(block) == {"type", "n"} for block in found)
