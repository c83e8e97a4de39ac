"""One case tried through the running proxy, and what came of it.

trial = await tried(body, json_reply(...), toml=WINDOW)
assert trial.untouched
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import msgspec

from tests.support.chat import COMPLETION, Call, post
from tests.support.conversations import prose
from tests.support.pairs import broken_pairs, starts_with_assistant
from tests.support.running import running
from tests.support.scripted import Received, Script, ScriptedUpstream, json_reply
from trimtab.context.read.views import View, view

BUDGETS = (150, 400, 1_000, 2_000, 4_000, 6_000, 9_000)


@dataclass(frozen=True)
class Trial:
    """What was posted, what the upstream was asked, what the client got, and what was written of it."""

    body: bytes
    asked: list[Received]
    answers: list[Call]
    log: str
    metrics: str

    @property
    def answer(self) -> Call:
        return self.answers[-1]

    @property
    def untouched(self) -> bool:
        """The upstream got the very bytes, each time."""
        return bool(self.asked) and all(received.body == self.body for received in self.asked)

    @property
    def sent(self) -> Any:
        return self.asked[-1].json()

    @property
    def messages(self) -> list[Any]:
        return list(self.sent["messages"])

    @property
    def lines(self) -> list[Any]:
        return [msgspec.json.decode(line) for line in self.log.splitlines()]

    @property
    def line(self) -> Any:
        return self.lines[-1]

    @property
    def edits(self) -> str:
        return str(self.answer.headers["x-trimtab-edits"])

    @property
    def error(self) -> Any:
        return self.answer.json()["error"]


async def tried(body: Any, *scripts: Script, toml: str = "", times: int = 1, path: str = "", **headers: str) -> Trial:
    """Post `body` (bytes, or a value as JSON) `times` times to a new proxy, before an upstream with these scripts."""
    raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
    upstream = ScriptedUpstream(*(scripts or (json_reply(COMPLETION),)))
    async with upstream, running(upstream.base_url, toml) as proxy:
        answers = [await post(proxy.url, raw, path or "/v1/chat/completions", **headers) for _ in range(times)]
        metrics = await proxy.metrics()
        log = proxy.log.getvalue()
    return Trial(raw, upstream.requests, answers, log, metrics)


def window(size: int, output: int = 1_024, **more: int) -> str:
    """Every model takes `size` tokens."""
    lines = [f"{name} = {value}\n" for name, value in more.items()]
    return f'[models."*"]\ncontext_size = {size}\nmax_output_tokens = {output}\n' + "".join(lines)


async def squeezed(body: dict[str, Any], toml: str = "") -> list[tuple[int, list[Any]]]:
    """The messages sent at each of several budgets, from next to nothing to plenty; a refusal sends none."""
    profiles = "".join(f"[profiles.b{b}]\nbudget = {b}\n" for b in BUDGETS)
    sent: list[tuple[int, list[Any]]] = []
    upstream = ScriptedUpstream(json_reply(COMPLETION))
    async with upstream, running(upstream.base_url, toml + window(20_000) + profiles) as proxy:
        for budget in BUDGETS:
            before = len(upstream.requests)
            answer = await post(proxy.url, body, x_trimtab_profile=f"b{budget}")
            assert answer.status in (200, 400), answer.body
            if answer.status == 400:
                assert answer.json()["error"]["code"] == "context_length_exceeded"
            sent += [(budget, received.json()["messages"]) for received in upstream.requests[before:]]
        assert '"level":"error"' not in proxy.log.getvalue()
        assert "fail_open" not in proxy.log.getvalue()
    return sent


def inflated(messages: list[Any], tokens: int = 700) -> list[Any]:
    """The same conversation with more said in each message, so that it has to be shaped."""
    return [
        {**m, "content": f"{m['content']} {prose(tokens, i)}"} if _says_something(m) else m
        for i, m in enumerate(messages)
    ]


def _says_something(message: Any) -> bool:
    return isinstance(message, dict) and isinstance(message.get("content"), str) and bool(message["content"])


def views(messages: list[Any]) -> list[View]:
    return [view(msgspec.json.encode(m)) for m in messages]


def still_valid(sent: list[Any], messages: list[Any]) -> None:
    """What a strict upstream takes of the client's, it takes of what was sent: pairs, order, roles, arguments."""
    before, after = views(messages), views(sent)
    assert broken_pairs(after) <= broken_pairs(before)
    assert starts_with_assistant(after) <= starts_with_assistant(before)
    newest = next((m for m in reversed(messages) if m["role"] == "user"), None)
    assert newest is None or newest in sent
    assert [m for m in messages if m["role"] in ("system", "developer")] == [
        m for m in sent if m["role"] in ("system", "developer") and not _ours(m)
    ]
    for message in sent:
        assert message.get("content") != ""
        for call in message.get("tool_calls") or []:
            json.loads(call["function"]["arguments"])


def _ours(message: Any) -> bool:
    return str(message.get("content")).startswith(("[Earlier messages", "[Conversation summary]"))
