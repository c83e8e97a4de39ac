"""Messages as they stand in a request: bytes of JSON, made and read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec

WORDS = "the quick brown fox jumps over the lazy dog and then reads its own log file again "


def prose(chars: int) -> str:
    """Plain English text of exactly that many characters."""
    return (WORDS * (chars // len(WORDS) + 1))[:chars]


def msg(role: str, content: Any = "ok", **fields: Any) -> bytes:
    return json.dumps({"role": role, "content": content, **fields}).encode()


def system(content: Any = "You are careful.", **fields: Any) -> bytes:
    return msg("system", content, **fields)


def user(content: Any = "Go on.", **fields: Any) -> bytes:
    return msg("user", content, **fields)


def assistant(content: Any = "Done.", **fields: Any) -> bytes:
    return msg("assistant", content, **fields)


def calls(*ids: str, name: str = "read_file", arguments: str = '{"path": "a"}', **fields: Any) -> bytes:
    """An assistant message with one tool call for each id."""
    tools = [{"id": i, "type": "function", "function": {"name": name, "arguments": arguments}} for i in ids]
    return msg("assistant", fields.pop("content", None), tool_calls=tools, **fields)


def result(id: str, content: Any = "ok", **fields: Any) -> bytes:
    return msg("tool", content, tool_call_id=id, **fields)


def tool_loop(cycles: int, chars: int = 400, start: int = 0) -> list[bytes]:
    """That many tool cycles, each of another call, with another result of `chars` characters."""
    ks = range(start, start + cycles)
    return [m for k in ks for m in (read_call(k), result(f"c{k}", f"{k} {prose(chars)}"[:chars]))]


def read_call(k: int) -> bytes:
    """The call of a tool cycle: the k-th file is read."""
    return calls(f"c{k}", arguments=f'{{"path": "{k}"}}')


class _WithRole(msgspec.Struct):
    role: Any = None


def role_of(raw: bytes) -> str:
    """The role a receiver reads, "" when there is none."""
    try:
        role = msgspec.json.decode(raw, type=_WithRole).role
    except (msgspec.DecodeError, RecursionError):
        return ""
    return role if isinstance(role, str) else ""


def roles(raws: Sequence[bytes]) -> list[str]:
    return [role_of(bytes(raw)) for raw in raws]


NAMED_RUN = [
    system(),
    user("Look at src/main.py and never touch conf.d/x1."),
    *(
        message
        for k in range(40)
        for message in (
            calls(f"c{k}"),
            result(f"c{k}", f"def function_{k}(first, second):\n    return table_{k % 7}.get('key {k}') # café\n" * 4),
        )
    ),
    *tool_loop(6, 40, 60),
]
"""An agent run whose older results are full of names, each in lines of its own."""
