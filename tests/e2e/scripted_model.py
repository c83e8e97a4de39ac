"""An upstream for coding agents: it asks for one shell command after the other, and looks at every request as the
provider would.

It speaks the Responses and the Messages API. A request larger than its window is refused in the provider's words, one
that breaks the grammar is refused and remembered in `complaints`. Sizes are a quarter of the bytes, which it reports as
usage. With `binds` its thinking is valid only after the very messages it was made after.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import msgspec

from tests.dialects import items, turns
from tests.support.scripted import Received, ScriptedUpstream, Step, chunk, json_reply, reply

DONE = "ALL PAGES ARE READ"
_TOO_LONG = "Your input exceeds the context window of this model. Please adjust your input and try again."
_COMPACTING = (b"CONTEXT CHECKPOINT", b"create a detailed summary")
Json = dict[str, Any]


class ScriptedModel:
    """The model behind a `ScriptedUpstream`. `commands` are run in order, `parallel` at a time."""

    def __init__(self, window: int, commands: Iterable[str], parallel: int = 1, *, binds: bool = False) -> None:
        self._window, self._parallel, self._binds = window, parallel, binds
        self._commands = list(commands)
        self._turn = itertools.count(1)
        self._bindings = turns.Bindings()
        self.accepted = self.refused = 0
        self.finished = False
        self.complaints: list[str] = []

    def upstream(self) -> ScriptedUpstream:
        """The server; its answers are this model's."""
        return ScriptedUpstream(self._answer)

    def _answer(self, request: Received) -> list[Step]:
        path = request.target.partition("?")[0]
        if request.method != "POST":
            return json_reply({"object": "list", "data": []}) if path.endswith("/models") else reply(404)
        if path.endswith("/responses"):
            return self._responses(request.json())
        if path.endswith("/messages"):
            return self._messages(request.json())
        return json_reply({"input_tokens": len(request.body) // 4}) if path.endswith("/count_tokens") else reply(404)

    def _next(self, body: bytes, has_tools: bool) -> list[str]:
        """The commands of this turn; none when there is nothing left to run."""
        if not has_tools or any(words in body[-8_000:] for words in _COMPACTING):
            return []
        taken, self._commands = self._commands[: self._parallel], self._commands[self._parallel :]
        self.finished = not taken
        return taken

    # -- Responses -----------------------------------------------------------------------------------------------

    def _responses(self, body: Json) -> list[Step]:
        listed = body["input"]
        raw = msgspec.json.encode([body.get("instructions"), listed, body.get("tools")])
        if len(raw) // 4 > self._window:
            self.refused += 1
            error = {"message": _TOO_LONG, "type": "invalid_request_error", "param": "input"}
            return json_reply({"error": {**error, "code": "context_length_exceeded"}}, 400)
        if found := items.complaints([msgspec.json.encode(item) for item in listed]):
            self.complaints += found
            return json_reply({"error": {"message": found[0], "param": "input", "code": None}}, 400)
        self.accepted += 1
        turn, tools = next(self._turn), _tool_names(body)
        commands = self._next(raw, bool(tools))
        output = [msgspec.json.decode(raw) for raw in [items.reasoning(turn), *_calls(turn, commands, tools)]]
        usage = {"input_tokens": len(raw) // 4, "output_tokens": 20, "total_tokens": len(raw) // 4 + 20}
        answer = {"id": f"resp_{turn}", "object": "response", "created_at": 1, "status": "completed", "model": "m"}
        answer |= {"output": output, "usage": usage, "tools": [], "tool_choice": "auto", "parallel_tool_calls": True}
        if not body.get("stream"):
            return json_reply(answer)
        created = {"type": "response.created", "response": {**answer, "output": [], "usage": None}}
        done = [{"type": "response.output_item.done", "output_index": n, "item": i} for n, i in enumerate(output)]
        return _stream([created, *done, {"type": "response.completed", "response": answer}])

    # -- Messages ------------------------------------------------------------------------------------------------

    def _messages(self, body: Json) -> list[Step]:
        listed = body["messages"]
        raw = msgspec.json.encode([body.get("system"), listed, body.get("tools")])
        size = len(raw) // 4
        if size > self._window:
            self.refused += 1
            return _refusal(f"prompt is too long: {size} tokens > {self._window} maximum")
        if found := turns.complaints(listed) or (self._bindings.broken(listed) if self._binds else []):
            self.complaints += found
            return _refusal(f"{found[0]}: the block is bound to a different conversation")
        self.accepted += 1
        turn, tools = next(self._turn), [tool["name"] for tool in body.get("tools") or ()]
        self._bindings.make(turn, listed)
        commands = self._next(msgspec.json.encode(listed[-1]), "Bash" in tools or "run" in tools)
        name = "Bash" if "Bash" in tools else "run"
        uses = [
            {**turns.use(turn, n, command=each, description="read"), "name": name} for n, each in enumerate(commands)
        ]
        thoughts = [turns.thought(turn)] if body.get("thinking") else []
        content = [*thoughts, *(uses or [turns.text("<summary>Pages.</summary>" if not self.finished else DONE)])]
        usage = {"input_tokens": size, "output_tokens": 20}
        answer = {"id": f"msg_{turn}", "type": "message", "role": "assistant", "model": "m", "content": content}
        answer |= {"stop_reason": "tool_use" if uses else "end_turn", "stop_sequence": None, "usage": usage}
        return _stream(_events(answer)) if body.get("stream") else json_reply(answer)


def _tool_names(body: Json) -> list[str]:
    """The tools of a request: of its field, and those that an item adds."""
    listed = list(body.get("tools") or ())
    for item in body["input"]:
        if isinstance(item, dict) and item.get("type") == "additional_tools":
            for tool in item["tools"]:
                listed += tool.get("tools") or [tool]
    return [tool.get("name") or tool["type"] for tool in listed]


def _calls(turn: int, commands: list[str], tools: list[str]) -> list[bytes]:
    """Calls of the tool that runs a command, codex's or one of ours; the last word when there is nothing to run."""
    if not commands:
        return [items.encoded(id=f"msg_{turn}", status="completed", **msgspec.json.decode(_message()))]
    if "exec" in tools:
        code = "text((await tools.exec_command({{cmd: {}}})).output)"
        scripts = [code.format(msgspec.json.encode(each).decode()) for each in commands]
        return [_named(items.call(turn, n, "custom_tool_call", text), "exec") for n, text in enumerate(scripts)]
    field, name = ("cmd", "exec_command") if "exec_command" in tools else ("command", "run")
    arguments = [msgspec.json.encode({field: each}).decode() for each in commands]
    return [_named(items.call(turn, n, text=text), name) for n, text in enumerate(arguments)]


def _message() -> bytes:
    kind = {"type": "output_text", "text": DONE, "annotations": []}
    return items.encoded(type="message", role="assistant", content=[kind])


def _named(raw: bytes, name: str) -> bytes:
    return msgspec.json.encode({**msgspec.json.decode(raw), "name": name, "status": "completed"})


def _refusal(message: str) -> list[Step]:
    error = {"type": "invalid_request_error", "message": message}
    return json_reply({"type": "error", "error": error, "request_id": "req_1"}, 400)


def _events(answer: Json) -> list[Json]:
    """A message as the events of a stream."""
    usage = {**answer["usage"], "output_tokens": 1}
    events: list[Json] = [{"type": "message_start", "message": {**answer, "content": [], "usage": usage}}]
    for n, block in enumerate(answer["content"]):
        empty, deltas = _pieces(block)
        events.append({"type": "content_block_start", "index": n, "content_block": empty})
        events += [{"type": "content_block_delta", "index": n, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": n})
    delta = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
    return [
        *events,
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 20}},
        {"type": "message_stop"},
    ]


def _pieces(block: Json) -> tuple[Json, list[Json]]:
    if block["type"] == "text":
        return {**block, "text": ""}, [{"type": "text_delta", "text": block["text"]}]
    if block["type"] == "thinking":
        signed = {"type": "signature_delta", "signature": block["signature"]}
        said = {"type": "thinking_delta", "thinking": block["thinking"]}
        return {**block, "thinking": "", "signature": ""}, [said, signed]
    given = msgspec.json.encode(block["input"]).decode()
    return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": given}]


def _stream(events: list[Json]) -> list[Step]:
    """Named events, each in a chunk of its own."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    written = (b"event: %b\ndata: %b\n\n" % (e["type"].encode(), msgspec.json.encode(e)) for e in events)
    return [head, *map(chunk, written), b"0\r\n\r\n"]
