"""Generated conversations, sent step by step through the running proxy to an upstream that checks what it gets.

At every step the upstream finds nothing invalid: pairs of calls and results, roles, arguments, fields that no API has.
And the task and the newest question are always there.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.anthropic_pairs import broken
from tests.support.chat import COMPLETION, post
from tests.support.conversations import prose
from tests.support.running import Running, running
from tests.support.scripted import Received, ScriptedUpstream, Step, json_reply
from tests.support.summary_models import OPENING
from trimtab.context.estimate.tokens import text_tokens

pytestmark = pytest.mark.anyio

WINDOWS = {"small": 4_000, "medium": 9_000, "strict": 6_000}
TOML = (
    "".join(f'[models."{name}-*"]\ncontext_size = {size}\nmax_output_tokens = 500\n' for name, size in WINDOWS.items())
    + '[models."writer"]\ncontext_size = 32000\nmax_output_tokens = 2000\n[limits]\ndiscover = false\n'
)
SUMMARIES = '[compaction]\nmodel = "writer"\nmax_summary_tokens = 300\n'
FIELDS = {"role", "content", "name", "tool_calls", "tool_call_id", "reasoning_text"}
ROLES = {"system", "developer", "user", "assistant", "tool"}

# -- conversations -----------------------------------------------------------------------------------------------

sizes = st.sampled_from([3, 40, 40, 300, 900])
KINDS = ("answer", "call", "calls", "late order", "blocks", "block and words", "screenshot", "reminder", "marked")


def step(kind: str, k: int, size: int) -> list[Any]:
    """What an agent adds in one step, from an answer on."""
    a, b, text = f"c{k}a", f"c{k}b", prose(size, k)
    calls = [{"id": i, "type": "function", "function": {"name": "read", "arguments": f'{{"p": {k}}}'}} for i in (a, b)]
    one = [{"role": "assistant", "content": None, "tool_calls": calls[:1]}, tool(a, text)]
    uses = [{"type": "tool_use", "id": i, "name": "read", "input": {"p": k}} for i in (a, b)]
    found = [{"type": "tool_result", "tool_use_id": i, "content": text} for i in (a, b)]
    forms: dict[str, list[Any]] = {
        "answer": [{"role": "assistant", "content": f"Answer {k}. {text}"}, user(f"QUESTION-{k}?")],
        "call": one,
        "calls": [{"role": "assistant", "content": "Both.", "tool_calls": calls}, tool(a, text), tool(b, text)],
        "late order": [{"role": "assistant", "content": None, "tool_calls": calls}, tool(b, text), tool(a, "ok")],
        "blocks": [{"role": "assistant", "content": uses}, user(found)],
        "block and words": [
            {"role": "assistant", "content": uses[:1]},
            user([found[0], {"type": "text", "text": f"QUESTION-{k}?"}]),
        ],
        "screenshot": [*one, user([{"type": "text", "text": f"QUESTION-{k}: see?"}, IMAGE])],
        "reminder": [*one, {"role": "system", "content": f"Reminder {k}. {prose(min(size, 200), k)}"}],
        "marked": [*one, {**user(f"QUESTION-{k}?"), "pinned": True}],
    }
    return forms[kind]


IMAGE = {"type": "image_url", "image_url": {"url": "https://example.invalid/a.png", "detail": "low"}}


def tool(id: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": text}


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


@st.composite
def conversations(draw: st.DrawFn) -> list[list[Any]]:
    """The histories that an agent sends one after the other."""
    opening = [{"role": "system", "content": prose(draw(sizes.filter(lambda n: n < 300)))}] * draw(st.integers(0, 1))
    history = [*opening, user("TASK-0: count the files. QUESTION-0?")]
    histories = [list(history)]
    for k, (kind, size) in enumerate(
        draw(st.lists(st.tuples(st.sampled_from(KINDS), sizes), min_size=1, max_size=16)), 1
    ):
        history += step(kind, k, size)
        histories.append(list(history))
    return histories


# -- the strict upstream -----------------------------------------------------------------------------------------


def wrong(messages: list[Any]) -> str:
    """What a strict server would refuse these messages for; "" for nothing."""
    for i, message in enumerate(messages):
        if unknown := set(message) - FIELDS:
            return f"message {i}: unknown fields {unknown}"
        if message["role"] not in ROLES:
            return f"message {i}: unknown role"
        for call in message.get("tool_calls") or ():
            json.loads(call["function"]["arguments"])
        if message["role"] != "assistant" and message.get("content") in (None, "", []):
            return f"message {i}: no content"
    first = next((m["role"] for m in messages if m["role"] not in ("system", "developer")), "")
    return broken(messages) or ("" if first == "user" else f"it begins with {first!r}")


def alternates(messages: list[Any]) -> bool:
    """True when no two user messages stand side by side, tool cycles apart, and the one system message is first."""
    plain = [
        m["role"] for m in messages if m["role"] == "user" or (m["role"] == "assistant" and not m.get("tool_calls"))
    ]
    return not any(a == b == "user" for a, b in pairwise(plain)) and all(m["role"] != "system" for m in messages[1:])


SEEN: list[Any] = []


def strict(received: Received) -> list[Step]:
    body = received.json()
    if body["model"] == "writer":
        text = {"role": "assistant", "content": OPENING + "it is so."}
        return json_reply({"choices": [{"finish_reason": "stop", "message": text}]})
    SEEN.append(body["messages"])
    found = wrong(body["messages"])
    return (
        json_reply({"error": {"message": found, "type": "invalid_request_error"}}, 400)
        if found
        else json_reply(COMPLETION)
    )


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module", params=["dropped", "summarized"])
async def proxy(request: pytest.FixtureRequest) -> AsyncIterator[Running]:
    toml = TOML + (SUMMARIES if request.param == "summarized" else "")
    async with ScriptedUpstream(strict) as upstream, running(upstream.base_url, toml) as proxy:
        yield proxy


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(histories=conversations(), window=st.sampled_from(["small", "medium"]))
async def test_nothing_invalid_is_ever_sent_and_task_and_question_are_there(
    proxy: Running, histories: list[list[Any]], window: str
) -> None:
    for history in histories:
        SEEN.clear()
        answer = await post(proxy.url, {"model": f"{window}-1", "messages": history})
        assert answer.status == 200, answer.body
        (sent,) = SEEN
        text, given = json.dumps(sent), json.dumps(history)
        assert "TASK-0" in text
        newest = max(int(word.split("?")[0].split(":")[0]) for word in given.split("QUESTION-")[1:])
        assert f"QUESTION-{newest}" in text
        assert text_tokens(text) < WINDOWS[window] * 1.3
    assert "fail_open" not in proxy.log.getvalue()


PLAIN = ("answer", "call", "calls", "marked")


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(st.tuples(st.sampled_from(PLAIN[:3]), sizes), min_size=1, max_size=14))
async def test_where_roles_must_alternate_they_do(proxy: Running, parts: list[tuple[str, int]]) -> None:
    history: list[Any] = [{"role": "system", "content": "Be brief."}, user("TASK-0: count. QUESTION-0?")]
    for k, (kind, size) in enumerate(parts, 1):
        history += step(kind, k, size)
        if kind != "answer":  # the question is answered before the next one comes
            history += [{"role": "assistant", "content": f"Done {k}."}, user(f"QUESTION-{k}?")]
        SEEN.clear()
        answer = await post(proxy.url, {"model": "strict-mistral-7b", "messages": history})
        assert answer.status == 200, answer.body
        assert alternates(history)
        assert alternates(SEEN[0])
        assert f"QUESTION-{k}" in json.dumps(SEEN[0])


async def test_they_had_to_be_shaped_in_every_way(proxy: Running) -> None:
    """What the tests above are worth: a conversation of such steps does not fit."""
    history = [user("TASK-0: count. QUESTION-0?")]
    for k in range(1, 31):
        history += step(KINDS[k % len(KINDS)], k, 300)
        await post(proxy.url, {"model": "small-1", "messages": history})
    metrics = await proxy.metrics()
    removed = "summarized" if "writer" in metrics else "dropped"
    for stage in ("cleared", removed):
        assert f'stage="{stage}"' in metrics
