"""Request bodies: a recorded-like agent run of any size, always the same for the same arguments.

An assistant says a line and calls a tool, the tool answers with code, a listing or JSON: about a kilobyte a message
in the mean, which is what recorded runs have. One text in ten is not all ASCII. `NONCE` stands in every message, so
that a body can be made a conversation never seen before (a cold memo) by one replacement that leaves its size.
"""

from __future__ import annotations

import random
from typing import Any

import msgspec

NONCE = b"nonce-0000000000"

SIZE_OF_100K_TOKENS = 510_000  # bytes of a body that o200k counts at 100,000 tokens; a test counts it

_TEXT = (
    "the value of return import self config path error result list test request response client server index "
    "cache token context message window budget stream chunk header parse build deploy cluster node replica "
    "warning line file open read write close async await def class None True False 0x7f3a 404 200 3.14 "
    "context window budget"
)
_WORDS = _TEXT.split()
_FOREIGN = [*_WORDS, "größer", "naïve", "上下文", "данные", "→", "✓"]
_TOOLS = ("read_file", "run_tests", "search", "list_directory", "git_diff")


def tools() -> list[dict[str, Any]]:
    """Schemas of the run's tools, about 2 KB in all."""
    described = {"type": "object", "properties": {"path": {"type": "string", "description": "where to look " * 12}}}
    return [
        {"type": "function", "function": {"name": name, "description": f"Tool {name}.", "parameters": described}}
        for name in _TOOLS
    ]


def messages(size: int, seed: int = 1) -> list[dict[str, Any]]:
    """An agent run whose messages take about `size` bytes of JSON; the last message is a tool's result."""
    draw = random.Random(seed)
    nonce = NONCE.decode()
    out: list[dict[str, Any]] = [
        {"role": "system", "content": f"{nonce} You are a careful engineer. {_text(draw, 600)}"},
        {"role": "user", "content": f"{nonce} Find out why the build fails. {_text(draw, 300)}"},
    ]
    used = sum(len(msgspec.json.encode(m)) + 1 for m in out)
    while used < size:
        cycle = _cycle(draw, len(out), min(size - used, 60_000))
        out += cycle
        used += sum(len(msgspec.json.encode(m)) + 1 for m in cycle)
    return out


def body(model: str, size: int, *, stream: bool = False, seed: int = 1) -> bytes:
    """A whole request of about `size` bytes."""
    request: dict[str, Any] = {"model": model, "stream": stream, "max_tokens": 1000, "messages": []}
    if size > 8_000:
        request["tools"] = tools()
    request["messages"] = messages(size - len(msgspec.json.encode(request)), seed)
    return msgspec.json.encode(request)


def unseen(template: bytes, number: int) -> bytes:
    """The same conversation about something else: every message differs, the size does not."""
    return template.replace(NONCE, b"nonce-%010d" % number)


def _cycle(draw: random.Random, number: int, room: int) -> list[dict[str, Any]]:
    name = draw.choice(_TOOLS)
    call_id = f"call_{number:06d}"
    arguments = msgspec.json.encode({"path": f"src/{NONCE.decode()}/{number}.py", "note": _text(draw, 80)}).decode()
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
    length = min(int(draw.lognormvariate(6.9, 1.0)), 20_000, max(40, room - 700))
    return [
        {"role": "assistant", "content": f"{NONCE.decode()} {_text(draw, 200)}", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call_id, "content": f"{NONCE.decode()}\n{_text(draw, length)}"},
    ]


def _text(draw: random.Random, characters: int) -> str:
    words = draw.choices(_FOREIGN if draw.random() < 0.1 else _WORDS, k=characters // 6 + 1)
    return " ".join(word + "\n" * (i % 11 == 10) for i, word in enumerate(words))[:characters]
