"""Stored conversations as OpenAI's API shows them: the objects of `/v1/conversations` and `/v1/responses/{id}`.

An item is shown with its id and in its full form, as the reference has it: what a client sent as a short text is shown
as a list of parts, and messages of a chat as message items.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Raw

from trimtab.conversations.entries import Header, Held, Record
from trimtab.errors import InvalidRequest, NotStored

Order = Literal["asc", "desc"]
MOST_LISTED = 100  # items of one page, as OpenAI's
MOST_METADATA = 16  # keys, as OpenAI's


class Page(msgspec.Struct, frozen=True):
    """Which items a list shows: at most `limit`, in this order, those behind the item `after`."""

    after: str = ""
    limit: int = 20
    order: Order = "desc"


def page_of(query: Mapping[str, str]) -> Page:
    """The page that a query asks for. Raises InvalidRequest."""
    limit, order = query.get("limit", "20"), query.get("order", "desc")
    if not limit.isdecimal() or not 1 <= int(limit) <= MOST_LISTED:
        raise InvalidRequest(f"Invalid limit. Use 1 to {MOST_LISTED}.", param="limit")
    if order not in ("asc", "desc"):
        raise InvalidRequest("Invalid order. Use asc or desc.", param="order")
    return Page(query.get("after", ""), int(limit), "asc" if order == "asc" else "desc")


def conversation(name: str, header: Header) -> dict[str, Any]:
    """A conversation, without its items."""
    return {
        "id": name,
        "object": "conversation",
        "created_at": header.created_at,
        "metadata": Raw(header.metadata),
    }


def listing(items: Sequence[Held], page: Page) -> dict[str, Any]:
    """One page of items. Raises NotStored for an `after` that is none of them."""
    ordered = items if page.order == "asc" else items[::-1]
    start = 0
    if page.after:
        start = next((at + 1 for at, item in enumerate(ordered) if item.id == page.after), 0)
        if not start:
            raise NotStored("The item named by `after` is not stored.", param="after")
    return listed(ordered[start : start + page.limit], more=start + page.limit < len(ordered))


def listed(items: Sequence[Held], *, more: bool = False) -> dict[str, Any]:
    """These items as a list."""
    ids = [items[0].id, items[-1].id] if items else [None, None]
    data = [shown(item) for item in items]
    return {"object": "list", "data": data, "first_id": ids[0], "last_id": ids[1], "has_more": more}


def response(record: Record, output: Sequence[Held]) -> dict[str, Any]:
    """A response as it was answered, with its output, and marked as stored."""
    fields = msgspec.json.decode(record.response, type=dict[str, Raw])
    kept: dict[str, Any] = {**fields, "output": [Raw(item.raw) for item in output], "store": True}
    if record.name.startswith("c:"):
        kept["conversation"] = {"id": record.name.removeprefix("c:")}
    return kept


def metadata_of(value: Any) -> bytes:
    """Metadata as it is stored. Raises InvalidRequest for anything but a few texts by name."""
    value = {} if value is None else value
    texts = isinstance(value, dict) and all(isinstance(text, str) for text in value.values())
    if not texts or len(value) > MOST_METADATA:
        raise InvalidRequest(f"Invalid metadata. Send at most {MOST_METADATA} texts by name.", param="metadata")
    return msgspec.json.encode(value)


_KINDS = {"text": "input_text", "image_url": "input_image", "file": "input_file"}  # of parts: chat's and ours


def shown(item: Held) -> dict[str, Any]:
    """One item in its full form."""
    fields: Any = msgspec.json.decode(item.raw)
    fields = fields if isinstance(fields, dict) else {"content": fields}
    if fields.get("role") == "tool":
        return {"id": item.id, "type": "function_call_output", "status": "completed"} | {
            "call_id": fields.get("tool_call_id"),
            "output": fields.get("content"),
        }
    full: dict[str, Any] = {**fields, "id": item.id, "type": fields.get("type") or "message"}
    if full["type"] != "message":
        return full
    full["content"] = _parts(full.get("content"), made=full.get("role") == "assistant")
    return {"status": "incomplete" if item.partial else "completed", **full}


def _parts(content: Any, *, made: bool) -> list[Any]:
    if isinstance(content, str):
        part = {"type": "output_text", "text": content, "annotations": []}
        return [part if made else {"type": "input_text", "text": content}]
    return [_part(part, made=made) for part in content] if isinstance(content, list) else []


def _part(part: Any, *, made: bool) -> Any:
    """A part of a chat message as a part of an item; any other as it is."""
    if not isinstance(part, dict) or part.get("type") not in _KINDS:
        return part
    kind = "output_text" if made and part["type"] == "text" else _KINDS[part["type"]]
    inner = part.get(part["type"])
    if part["type"] == "image_url" and isinstance(inner, dict):
        return {"type": kind, "detail": inner.get("detail", "auto"), "image_url": inner.get("url")}
    return {**(inner if isinstance(inner, dict) else part), "type": kind}
