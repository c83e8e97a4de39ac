"""A chat request to a running proxy, and what an upstream answers to it."""

from __future__ import annotations

from typing import Any

import aiohttp
import msgspec

COMPLETION = {
    "id": "c1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11},
}

OVERFLOW = {
    "error": {
        "message": "This model's maximum context length is 4096 tokens. "
        "However, your messages resulted in 6000 tokens.",
        "type": "invalid_request_error",
        "param": "messages",
        "code": "context_length_exceeded",
    }
}

WINDOW = '[models."*"]\ncontext_size = 8192\nmax_output_tokens = 1024\n'


class Call:
    """One request to a running proxy."""

    def __init__(self, status: int, headers: Any, body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body

    def json(self) -> Any:
        return msgspec.json.decode(self.body)


async def post(url: str, body: Any, path: str = "/v1/chat/completions", **headers: str) -> Call:
    data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with (
        aiohttp.ClientSession(auto_decompress=False) as session,
        session.post(url + path, data=data, headers=named) as answer,
    ):
        return Call(answer.status, answer.headers, await answer.read())


def token_counts(answer: Call) -> dict[str, int]:
    """The numbers of `x-trimtab-tokens`: original, sent, budget."""
    return {k: int(v) for k, _, v in (p.strip().partition("=") for p in answer.headers["x-trimtab-tokens"].split(","))}
