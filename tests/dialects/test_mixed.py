"""Anthropic's blocks and the AI SDK's parts in a chat: pairs like any other, and never an orphan."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases.trial import window
from tests.support.anthropic_pairs import broken
from tests.support.chat import COMPLETION, post
from tests.support.conversations import prose
from tests.support.running import running
from tests.support.scripted import Received, ScriptedUpstream, Step, json_reply
from trimtab.context.apply.apply import apply
from trimtab.context.plan.plan import plan
from trimtab.context.policy import Policy
from trimtab.context.read.history import Reader, history
from trimtab.context.read.memo import Memo
from trimtab.context.texts import PLACEHOLDER
from trimtab.dialects.chat import CHAT
from trimtab.dialects.mixed import FORMAT

TASK = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "The task: count the files."}]


def use(id: str, **given: Any) -> Any:
    return {"type": "tool_use", "id": id, "name": "read", "input": given or {"path": "a"}}


def found(id: str, text: Any = "ok") -> Any:
    return {"type": "tool_result", "tool_use_id": id, "content": text}


def cycle(k: int, words: int = 100, *, form: int = 0) -> list[Any]:
    """One step of an agent: alone, two at once, with text beside, in OpenAI's form, and both at once."""
    a, b, text = f"toolu_{k}a", f"toolu_{k}b", prose(words, k)
    call = {"id": a, "type": "function", "function": {"name": "read", "arguments": f'{{"path": "{k}"}}'}}
    user = {"role": "user"}
    return [
        [{"role": "assistant", "content": [use(a, path=a)]}, {**user, "content": [found(a, text)]}],
        [{"role": "assistant", "content": [{"type": "text", "text": "Both."}, use(a, path=a), use(b, x=text)]},
         {**user, "content": [found(a, text), found(b, [{"type": "text", "text": text}])]}],
        [{"role": "assistant", "content": [use(a, path=a)]},
         {**user, "content": [found(a, text), {"type": "text", "text": f"And now {k}?"}]}],
        [{"role": "assistant", "content": None, "tool_calls": [call]},
         {"role": "tool", "tool_call_id": a, "content": text}],
        [{"role": "assistant", "content": [use(b, path=b)], "tool_calls": [call]},
         {"role": "tool", "tool_call_id": a, "content": text}, {**user, "content": [found(b, text)]}],
        [{"role": "assistant", "content": [use(a, path=a)]}, {"role": "tool", "tool_call_id": a, "content": text}],
    ][form]  # fmt: skip


def sent(messages: list[Any], budget: int, policy: Policy | None = None) -> tuple[list[Any], Any]:
    request = CHAT.decode(msgspec.json.encode({"model": "m", "messages": messages}))
    memo = Memo(view=FORMAT.view, digest=FORMAT.digest)
    made = plan(history(request.messages, (), memo), policy or Policy(), budget, memo, FORMAT)
    body = CHAT.render(request, apply(request.messages, made, None, "system", FORMAT), {})
    return json.loads(body)["messages"], made


forms = st.lists(st.integers(0, 5), min_size=2, max_size=14)


@settings(max_examples=150, deadline=None)
@given(forms, st.integers(150, 4_000), st.integers(20, 400), st.booleans(), st.booleans())
def test_no_pair_is_ever_parted(kinds: list[int], budget: int, words: int, strict: bool, compaction: bool) -> None:
    messages = TASK + [m for k, form in enumerate(kinds) for m in cycle(k, words, form=form)]
    policy = Policy(strict_roles=strict, compaction=compaction, summary_tokens=100)
    assert broken(messages) == ""
    out, made = sent(messages, budget, policy)
    if made.fits:
        assert broken(out) == ""
        texts = [b["text"] for m in messages for b in m["content"] or () if isinstance(b, dict) and b["type"] == "text"]
        newest = next((t for t in reversed(texts) if t.startswith("And now")), TASK[1]["content"])
        assert newest in json.dumps(out)


@pytest.mark.parametrize("form", range(6))
def test_each_form_is_cleared_and_dropped_as_a_pair(form: int) -> None:
    messages = TASK + [m for k in range(12) for m in cycle(k, 300, form=form)]
    cleared, made = sent(messages, 3_500)
    assert "cleared" in {edit.stage for edit in made.edits}
    assert PLACEHOLDER in json.dumps(cleared)
    assert broken(cleared) == ""
    dropped, made = sent(messages, 900)
    assert "dropped" in {edit.stage for edit in made.edits}
    assert broken(dropped) == ""


def test_what_is_not_edited_keeps_its_bytes() -> None:
    messages = TASK + [m for k in range(12) for m in cycle(k, 300, form=1)]
    body = msgspec.json.encode({"model": "m", "messages": messages})
    request = CHAT.decode(body)
    assert CHAT.render(request, list(request.messages), {}) == body
    out, _ = sent(messages, 3_500)
    assert out[-2:] == messages[-2:]


def test_inputs_are_cleared_and_squeezed_too_and_stay_objects() -> None:
    raw = msgspec.json.encode({"role": "assistant", "content": [use("a", text=prose(900))], "x": 1})
    assert json.loads(FORMAT.rewrite(raw, "inputs_cleared", 0)) == {
        "role": "assistant", "content": [{**use("a"), "input": {}}], "x": 1}  # fmt: skip
    squeezed = json.loads(FORMAT.rewrite(raw, "squeezed", 200))["content"][0]
    assert 0 < len(squeezed["input"]["text"]) < 250


SDK = {
    "role": "tool",
    "content": [{"type": "tool-result", "toolCallId": "c1", "toolName": "read", "result": {"text": prose(900)}}],
}


@pytest.mark.parametrize("named", [{}, {"tool_call_id": "c1"}])
def test_a_part_of_the_ai_sdk_keeps_its_id(named: dict[str, str]) -> None:
    raw = msgspec.json.encode({**SDK, **named})
    view = FORMAT.view(raw)
    cleared = FORMAT.rewrite(raw, "cleared", 0)
    assert (view.role, view.answers) == ("tool", "c1")
    part = json.loads(cleared)["content"][0]
    assert part == {"type": "tool-result", "toolCallId": "c1", "toolName": "read", "result": PLACEHOLDER}
    assert FORMAT.view(cleared).tokens == view.cleared_tokens < view.tokens
    typed = {**SDK["content"][0], "output": {"type": "json", "value": {"a": prose(900)}}}  # type: ignore[index]
    del typed["result"]
    written = FORMAT.rewrite(msgspec.json.encode({"role": "tool", "content": [typed]}), "cleared", 0)
    assert json.loads(written)["content"][0]["output"] == {"type": "text", "value": PLACEHOLDER}


def test_calls_of_the_ai_sdk_are_calls() -> None:
    part = {"type": "tool-call", "toolCallId": "c1", "toolName": "read", "args": {"path": "a"}}
    view = FORMAT.view(msgspec.json.encode({"role": "assistant", "content": [part]}))
    assert [(call.id, call.name) for call in view.calls] == [("c1", "read")]


@pytest.mark.parametrize("form", range(6))
def test_a_summary_reads_every_form_as_chat(form: int) -> None:
    elements = CHAT.decode(msgspec.json.encode({"messages": cycle(1, 20, form=form)})).messages
    read = [json.loads(bytes(FORMAT.as_chat(raw))) for raw in elements]
    assert [call["function"]["name"] for m in read for call in m.get("tool_calls") or ()][:1] == ["read"]
    assert prose(20, 1) in json.dumps([m for m in read if m["role"] == "tool"])


def test_a_known_beginning_is_read_with_its_parts_also_before_a_plain_end() -> None:
    messages = TASK + [m for k in range(20) for m in cycle(k, 300, form=1)]
    reader = Reader(Memo(view=FORMAT.view, digest=FORMAT.digest), decode=CHAT.decode)
    for end in ([], cycle(99, 50, form=2), [{"role": "user", "content": "And?"}]):
        body = msgspec.json.encode({"model": "m", "messages": [*messages, *end]})
        reading = reader.read(body)
        whole = CHAT.decode(body).messages
        assert [bytes(raw) for raw in reading.request.messages] == [bytes(raw) for raw in whole]
        assert len(reader.history(reading).views) == len(whole)


@pytest.mark.anyio
async def test_an_agent_that_speaks_in_blocks_finishes_before_a_strict_server() -> None:
    """N01: what Cursor sends in agent mode, one request after each step."""

    def strict(received: Received) -> list[Step]:
        wrong = broken(received.json()["messages"])
        return json_reply({"error": {"message": wrong}}, 400) if wrong else json_reply(COMPLETION)

    toml = window(16_000, 2_000) + "[limits]\ndiscover = false\n"
    messages = list(TASK)
    async with ScriptedUpstream(strict) as upstream, running(upstream.base_url, toml) as proxy:
        for k in range(30):
            messages += cycle(k, 900, form=k % 3)
            answer = await post(proxy.url, {"model": "m", "max_tokens": 1_000, "messages": messages})
            assert answer.status == 200, answer.body
        assert "fail_open" not in proxy.log.getvalue()
    assert max(len(r.body) for r in upstream.requests) < 16_000 * 6
