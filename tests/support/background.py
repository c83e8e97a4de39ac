"""A server that answers Responses in the background and holds them, each for the key that it was asked with.

    server = BackgroundServer()
    async with ScriptedUpstream(server) as upstream: ...

A response is `queued` when it is made, `in_progress` when it is first asked for, then `completed`, unless it has been
cancelled. It can be continued here alone: the server knows its own `previous_response_id`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from tests.support.scripted import Received, Step, json_reply, sse_reply

_NEXT = {"queued": "in_progress", "in_progress": "completed"}


class BackgroundServer:
    """`asked`: method and target of every request, in order."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[bytes, dict[str, Any]]] = {}
        self.asked: list[str] = []

    def __call__(self, received: Received) -> Sequence[Step]:
        self.asked.append(f"{received.method} {received.target}")
        key = received.header(b"authorization") or b""
        if received.method == "POST" and received.target == "/v1/responses":
            return self._made(key, received.json())
        name = received.target.split("?")[0].split("/")[3]
        owner, response = self._held.get(name, (b"", {}))
        if not response or owner != key:
            return _refused(404, f"Response with id '{name}' not found.")
        if received.method == "DELETE":
            del self._held[name]
            return json_reply({"id": name, "object": "response", "deleted": True})
        if received.target.endswith("/cancel"):
            response["status"] = "cancelled"
        else:
            response["status"] = _NEXT.get(response["status"], response["status"])
        return json_reply(_with_output(response))

    def _made(self, key: bytes, body: dict[str, Any]) -> Sequence[Step]:
        previous = body.get("previous_response_id")
        if previous and self._held.get(previous, (b"", {}))[0] != key:
            return _refused(400, f"Previous response with id '{previous}' not found.")
        background = body.get("background") is True
        response: dict[str, Any] = {
            **{"id": f"resp_{len(self._held) + 1}", "object": "response", "created_at": 1, "model": body["model"]},
            **{"status": "queued" if background else "completed", "background": background, "output": []},
            **{"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "previous_response_id": previous},
        }
        self._held[response["id"]] = key, response
        if not body.get("stream"):
            return json_reply(_with_output(response))
        kinds = ("created", "queued", "in_progress")
        events = [
            {"type": f"response.{kind}", "sequence_number": n, "response": response} for n, kind in enumerate(kinds)
        ]
        return sse_reply(*map(msgspec.json.encode, events), done=False)


def _with_output(response: dict[str, Any]) -> dict[str, Any]:
    if response["status"] != "completed":
        return response
    part = {"type": "output_text", "text": f"answer of {response['id']}", "annotations": []}
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    return {**response, "output": [item]}


def _refused(status: int, message: str) -> Sequence[Step]:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return json_reply({"error": error}, status)
