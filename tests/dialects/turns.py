"""Messages of Anthropic's API as clients send them, and what Anthropic refuses of a list of them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

Message = dict[str, Any]


def text(words: str, **fields: Any) -> Message:
    return {"type": "text", "text": words, **fields}


def user(*blocks: Message | str) -> bytes:
    return msgspec.json.encode({"role": "user", "content": [text(b) if isinstance(b, str) else b for b in blocks]})


def system(words: str) -> bytes:
    return msgspec.json.encode({"role": "system", "content": words})


def thought(n: int) -> Message:
    return {"type": "thinking", "thinking": f"Step {n} needs a look.", "signature": f"sig_{n}"}


def use(n: int, part: int = 0, **given: Any) -> Message:
    return {"type": "tool_use", "id": f"toolu_{n}_{part}", "name": "Bash", "input": given or {"command": "ls"}}


def result(n: int, words: Any, part: int = 0, **fields: Any) -> Message:
    return {"type": "tool_result", "tool_use_id": f"toolu_{n}_{part}", "content": words, **fields}


def answer(*blocks: Message | str) -> bytes:
    content = [text(b) if isinstance(b, str) else b for b in blocks]
    return msgspec.json.encode({"role": "assistant", "content": content})


def cycle(n: int, words: str, parallel: int = 1, *after: Message) -> list[bytes]:
    """One answer with thinking and calls, and the message with their results, text after them. No two are the same."""
    parts = range(parallel)
    return [
        answer(thought(n), f"Step {n}.", *(use(n, part, command=f"ls {n} {part}") for part in parts)),
        user(*(result(n, f"{n} {part} {words}", part) for part in parts), *after),
    ]


def read(raws: Sequence[bytes]) -> list[Message]:
    return [msgspec.json.decode(raw) for raw in raws]


def blocks(message: Message) -> list[Message]:
    content = message["content"]
    return [text(content)] if isinstance(content, str) else content


def complaints(messages: Sequence[Message]) -> list[str]:
    """What Anthropic would refuse: pairs, places of system messages, empty content, more than four marks."""
    found = [] if messages[0]["role"] == "user" else ["the first message is not the user's"]
    for at, message in enumerate(messages):
        before = messages[at - 1] if at else {"role": "", "content": []}
        after = messages[at + 1] if at + 1 < len(messages) else {"role": "", "content": []}
        uses = {block["id"] for block in blocks(message) if block.get("type") == "tool_use"}
        found += [f"{id} has no result" for id in uses - _answered(_turn(messages, at + 1))]
        if message["role"] == "user":
            found += [f"{id} has no call" for id in _answered([message]) - _called(_turn_before(messages, at))]
        if message["role"] == "system":
            found += ["a system message has no place"] * (before["role"] not in ("user", "system"))
            found += ["a system message is not before an answer"] * (after["role"] not in ("", "assistant", "system"))
        if not message["content"] or any(block.get("text") == "" for block in blocks(message)):
            found.append(f"message {at} is empty")
        found += [f"{block['id']} has no object" for block in blocks(message) if _is_bad_use(block)]
    marks = msgspec.json.encode(messages).count(b'"cache_control"')
    return found + (["more than four marks"] if marks > 4 else [])


def _is_bad_use(block: Message) -> bool:
    return block.get("type") == "tool_use" and not isinstance(block["input"], dict)


def _turn(messages: Sequence[Message], at: int) -> list[Message]:
    """The user messages from one on: neighbours are combined."""
    turn = []
    for message in messages[at:]:
        if message["role"] != "user":
            break
        turn.append(message)
    return turn


def _turn_before(messages: Sequence[Message], at: int) -> list[Message]:
    while at and messages[at]["role"] == "user":
        at -= 1
    return [messages[at]]


def _answered(turn: Sequence[Message]) -> set[str]:
    return {block["tool_use_id"] for m in turn for block in blocks(m) if block.get("type") == "tool_result"}


def _called(turn: Sequence[Message]) -> set[str]:
    return {block["id"] for m in turn for block in blocks(m) if block.get("type") == "tool_use"}


class Bindings:
    """Thinking as the models check it that bind it: valid after what it was made after, cache marks and a leading run
    of earlier thinking apart."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[str, list[str]]] = {}

    def make(self, n: int, messages: Sequence[Message]) -> None:
        """The model thinks thought n after these messages."""
        self._made[f"sig_{n}"] = _prefix(messages), _signatures(messages)

    def broken(self, messages: Sequence[Message]) -> list[str]:
        """Signatures that are not valid where they stand."""
        found = []
        for at, message in enumerate(messages):
            for block in blocks(message):
                if block.get("type") == "thinking":
                    prefix, before = self._made[block["signature"]]
                    now = _signatures(messages[:at])
                    if prefix != _prefix(messages[:at]) or (now and before[-len(now) :] != now):
                        found.append(block["signature"])
        return found


def _signatures(messages: Sequence[Message]) -> list[str]:
    return [block["signature"] for m in messages for block in blocks(m) if block.get("type") == "thinking"]


def _prefix(messages: Sequence[Message]) -> str:
    shown = [{**m, "content": [_plain(b) for b in blocks(m) if b.get("type") != "thinking"]} for m in messages]
    return hashlib.sha256(msgspec.json.encode(shown)).hexdigest()


def _plain(block: Message) -> Message:
    return {name: value for name, value in block.items() if name != "cache_control"}
