"""Items of the Responses API as clients send them, and what OpenAI refuses of a list of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

ENCRYPTED = "gAAAA" + "x" * 1_995


def encoded(**fields: Any) -> bytes:
    return msgspec.json.encode(fields)


def message(text: str, role: str = "user") -> bytes:
    kind = "output_text" if role == "assistant" else "input_text"
    return encoded(type="message", role=role, content=[{"type": kind, "text": text}])


def reasoning(n: int) -> bytes:
    return encoded(type="reasoning", id=f"rs_{n}", summary=[], encrypted_content=ENCRYPTED)


def call(n: int, part: int = 0, kind: str = "function_call", text: str = "{}") -> bytes:
    given = {"arguments": text} if kind == "function_call" else {"input": text}
    return encoded(type=kind, id=f"fc_{n}_{part}", call_id=f"call_{n}_{part}", name="read", **given)


def output(n: int, text: Any, part: int = 0, kind: str = "function_call") -> bytes:
    return encoded(type=f"{kind}_output", call_id=f"call_{n}_{part}", output=text)


def cycle(n: int, text: str, parallel: int = 1, kind: str = "function_call") -> list[bytes]:
    """One answer: reasoning, its calls; and their results. No two are the same."""
    parts = range(parallel)
    return [reasoning(n), *(call(n, p, kind) for p in parts), *(output(n, f"{n} {p} {text}", p, kind) for p in parts)]


def complaints(items: Sequence[bytes]) -> list[str]:
    """What OpenAI would refuse: a call without its output, an output without its call, reasoning without what
    follows it, or a call without its reasoning."""
    read = [msgspec.json.decode(bytes(item)) for item in items]
    calls = {i["call_id"] for i in read if i.get("type", "").endswith("_call") and "call_id" in i}
    outputs = {i["call_id"] for i in read if i.get("type", "").endswith("_output") and "call_id" in i}
    found = [f"no output for {c}" for c in calls - outputs] + [f"no call for {c}" for c in outputs - calls]
    thought = {i["id"] for i in read if i.get("type") == "reasoning"}
    for item, after in zip(read, [*read[1:], {}], strict=True):
        kind = item.get("type")
        if kind == "reasoning" and not (after.get("type", "").endswith("_call") or after.get("role") == "assistant"):
            found.append(f"{item['id']} without what follows")
        if kind in ("function_call", "custom_tool_call"):
            json_or_text = item.get("arguments", "{}")
            msgspec.json.decode(json_or_text)
            if f"rs_{item['id'].split('_')[1]}" not in thought:
                found.append(f"{item['id']} without its reasoning")
    return found
