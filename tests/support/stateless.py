"""A model behind a server that holds nothing: it answers Responses and chat completions, whole or as streams, refuses
what only a server with state could answer, and what does not fit its window.

    model = StatelessModel(window=8000)
    async with ScriptedUpstream(model) as upstream: ...
    assert model.seen[-1] == ["user: hello", "assistant: answer 1", "user: and now?"]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tests.support.scripted import CLOSE, Received, Step, json_reply, sse_reply

CHARS = 4  # characters that count as one token


def text_of(message: dict[str, Any]) -> str:
    """A message or item as `role: text`."""
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(str(part.get("text", "")) for part in content)
    if "output" in message:
        return f"tool: {message['output']}"
    if message.get("type") == "function_call":
        return f"call: {message['name']}"
    if calls := message.get("tool_calls"):
        content = "call " + ", ".join(call["function"]["name"] for call in calls)
    return f"{message.get('role', message.get('type'))}: {content}"


class StatelessModel:
    """The n-th answer is `answer n`, or what `say` makes of the messages. With `breaks` a stream ends in its middle."""

    def __init__(self, window: int = 1_000_000, say: Callable[[list[str]], str] | None = None) -> None:
        self.window, self._say = window, say
        self.seen: list[list[str]] = []
        self.bodies: list[dict[str, Any]] = []
        self.largest = 0
        self.breaks = False

    def __call__(self, received: Received) -> Sequence[Step]:
        if received.method != "POST":  # a proxy that asks for limits
            return json_reply({}, 404)
        body = received.json()
        self.bodies.append(body)
        size = len(received.body) // CHARS
        self.largest = max(self.largest, size)
        if held := [name for name in ("previous_response_id", "conversation") if body.get(name)]:
            return _refused(f"{held[0]} is not supported by this server.", held[0])
        if size > self.window:
            sentence = f"This model's maximum context length is {self.window} tokens. Your input has {size} tokens."
            return _refused(sentence, "input", "context_length_exceeded")
        listed = body["input"] if "input" in body else body["messages"]
        listed = [{"role": "user", "content": listed}] if isinstance(listed, str) else listed
        self.seen.append([text_of(message) for message in listed])
        text = self._say(self.seen[-1]) if self._say else f"answer {len(self.seen)}"
        return self._response(body, text, size) if "input" in body else self._chat(body, text, size)

    def _response(self, body: dict[str, Any], text: str, size: int) -> Sequence[Step]:
        number = len(self.seen)
        part = {"type": "output_text", "text": text, "annotations": []}
        item = {"id": f"msg_{number}", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
        response = {
            **{"id": f"resp_{number}", "object": "response", "created_at": 1, "model": body["model"]},
            **{"status": "completed", "output": [item], "parallel_tool_calls": True, "tool_choice": "auto"},
            **{"tools": [], "store": False, "previous_response_id": None, "usage": _usage(size, "input", "output")},
        }
        if not body.get("stream"):
            return json_reply(response)
        begun = {**item, "status": "in_progress", "content": []}
        deltas = [
            _event("response.output_text.delta", item_id=item["id"], output_index=0, content_index=0, delta=piece)
            for piece in (text[:3], text[3:])
        ]
        head = _event("response.created", response={**response, "status": "in_progress", "output": []})
        empty = {**part, "text": ""}
        added = _event("response.content_part.added", item_id=item["id"], output_index=0, content_index=0, part=empty)
        events = [head, _event("response.output_item.added", output_index=0, item=begun), added, *deltas]
        if self.breaks:
            return sse_reply(*events[:-1], CLOSE, done=False)
        done = _event("response.output_item.done", output_index=0, item=item)
        return sse_reply(*events, done, _event("response.completed", response=response), done=False)

    def _chat(self, body: dict[str, Any], text: str, size: int) -> Sequence[Step]:
        head = {"id": f"c{len(self.seen)}", "created": 1, "model": body["model"]}
        usage = _usage(size, "prompt", "completion")
        if not body.get("stream"):
            message = {"role": "assistant", "content": text, "refusal": None}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            return json_reply({**head, "object": "chat.completion", "choices": [choice], "usage": usage})
        pieces = [{"role": "assistant", "content": text[:3]}, {"content": text[3:]}]
        events = [_chunk(head, delta) for delta in pieces]
        if self.breaks:
            return sse_reply(events[0], CLOSE, done=False)
        return sse_reply(*events, _chunk(head, {}, "stop"))


def _chunk(head: dict[str, Any], delta: dict[str, Any], why: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": why}
    return msgspec.json.encode({**head, "object": "chat.completion.chunk", "choices": [choice]})


def _event(kind: str, **fields: Any) -> bytes:
    return msgspec.json.encode({"type": kind, "sequence_number": 0, **fields})


def _usage(size: int, read: str, written: str) -> dict[str, Any]:
    cache = {"cached_tokens": 0, "cache_write_tokens": 0}
    details = {f"{read}_tokens_details": cache, f"{written}_tokens_details": {"reasoning_tokens": 0}}
    return {f"{read}_tokens": size, f"{written}_tokens": 2, "total_tokens": size + 2, **details}


def _refused(message: str, param: str, code: str | None = None) -> Sequence[Step]:
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return json_reply({"error": error}, 400)
