"""A request of any dialect as chat messages again: what the three have in common, to count and compare it."""

from __future__ import annotations

from typing import Any

import msgspec

Message = dict[str, Any]


def chat_of(name: str, body: Message) -> list[Message]:
    """The messages of a body in the dialect `name`. Thinking is left out."""
    if name == "responses":
        return _of_items(body["input"])
    return _of_turns(body) if name == "messages" else body["messages"]


def _of_items(items: Any) -> list[Message]:
    out: list[Message] = []
    for item in [{"role": "user", "content": items}] if isinstance(items, str) else items:
        kind = item.get("type", "message")
        if kind == "message":
            out.append({"role": item["role"], "content": _text(item["content"])})
        elif kind.endswith("_output"):
            out.append({"role": "tool", "tool_call_id": item["call_id"], "content": _text(item["output"])})
        elif kind.endswith("_call"):
            _add_call(out, item["call_id"], item["name"], item["arguments"])
    return out


def _of_turns(body: Message) -> list[Message]:
    out: list[Message] = [{"role": "system", "content": _text(body["system"])}] if body.get("system") else []
    for message in body["messages"]:
        blocks = message["content"]
        blocks = [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks
        results = [b for b in blocks if b["type"] == "tool_result"]
        uses = [b for b in blocks if b["type"] == "tool_use"]
        rest = [b for b in blocks if b["type"] not in ("tool_result", "tool_use", "thinking", "redacted_thinking")]
        out += [{"role": "tool", "tool_call_id": r["tool_use_id"], "content": _text(r.get("content"))} for r in results]
        if rest or not results:
            out.append({"role": message["role"], "content": _text(rest)})
        for use in uses:
            _add_call(out, use["id"], use["name"], msgspec.json.encode(use["input"]).decode())
    return out


def _add_call(out: list[Message], id: str, name: str, arguments: str) -> None:
    """A call belongs to the answer before it."""
    if not out or out[-1]["role"] != "assistant":
        out.append({"role": "assistant", "content": ""})
    call = {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
    out[-1].setdefault("tool_calls", []).append(call)


def _text(content: Any) -> Any:
    """Texts are joined; a content with anything else keeps its parts, as chat has them."""
    if not isinstance(content, list):
        return content or ""
    texts = [part.get("text") for part in content]
    if None in texts:
        return [{"type": "image_url"} if text is None else {"type": "text", "text": text} for text in texts]
    return "\n".join(texts)
