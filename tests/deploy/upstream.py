"""An upstream for trying the whole thing: OpenAI's chat format, small windows, a prefix cache, and faults by the
model's name. Needs aiohttp only, so that it runs inside the image too: `python upstream.py PORT`.

    model-8k        a window of 8,000 tokens, listed as that in /v1/models
    model-16k       listed with 16,000 tokens, refuses more than 4,000
    model-down      answers 503, and 500
    model-slow      a stream of one piece every 200 ms, 5 s long
    summary-model   a window of 200,000 tokens
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from typing import Any

from aiohttp import web

# Tokens: the window that /v1/models lists, and the one that is enforced.
WINDOWS = {
    "model-8k": (8_000, 8_000),
    "model-16k": (16_000, 4_000),
    "model-slow": (8_000, 8_000),
    "summary-model": (200_000, 200_000),
}
SUMMARY = "Goal: find the fault. Done so far: files read, two causes excluded, the third is likely."
_LAST: dict[str, list[str]] = {}
_COUNT = itertools.count()


def tokens(text: str) -> int:
    """Four bytes a token: near enough for a window."""
    return len(text.encode()) // 4


async def models(_: web.Request) -> web.Response:
    found = [{"id": name, "object": "model", "max_model_len": listed} for name, (listed, _) in WINDOWS.items()]
    return web.json_response({"object": "list", "data": found})


async def chat(request: web.Request) -> web.StreamResponse:
    body = await request.json()
    model = body["model"]
    if model == "model-down":
        status = 503 if next(_COUNT) % 2 else 500
        return web.json_response({"error": {"message": "try later", "type": "server_error"}}, status=status)
    text = json.dumps(body["messages"])
    size, window = tokens(text), WINDOWS.get(model, (8_000, 8_000))[1]
    if size > window:
        return _too_long(size, window)
    usage = {
        "prompt_tokens": size,
        "completion_tokens": 20,
        "total_tokens": size + 20,
        "prompt_tokens_details": {"cached_tokens": _cached(model, text)},
    }
    answer = SUMMARY if "ummar" in text[:4_000] and "tools" not in body else "Looked at it. " * 4
    if body.get("stream"):
        return await _stream(request, body, answer, usage)
    message = {"role": "assistant", "content": answer}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return web.json_response(
        {"id": "c", "object": "chat.completion", "model": model, "choices": [choice], "usage": usage}
    )


def _cached(model: str, text: str) -> int:
    """What begins like one of the last requests, in blocks of 128 tokens."""
    recent = _LAST.setdefault(model, [])
    longest = max((common(text, other) for other in recent), default=0) // 4
    recent.append(text)
    del recent[:-8]
    return longest // 128 * 128


def common(one: str, other: str) -> int:
    """How many characters both begin with, by bisection."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low


def _too_long(size: int, window: int) -> web.Response:
    message = (
        f"This model's maximum context length is {window} tokens. However, your messages resulted in {size} tokens."
        " Please reduce the length of the messages."
    )
    error = {
        "message": message,
        "type": "invalid_request_error",
        "param": "messages",
        "code": "context_length_exceeded",
    }
    return web.json_response({"error": error}, status=400)


async def _stream(request: web.Request, body: dict[str, Any], answer: str, usage: dict[str, Any]) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    pieces = ["piece "] * 25 if body["model"] == "model-slow" else answer.split(" ")
    for piece in pieces:
        await asyncio.sleep(0.2 if body["model"] == "model-slow" else 0.002)
        await response.write(_event({"choices": [{"index": 0, "delta": {"content": piece}}]}))
    await response.write(_event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}))
    if (body.get("stream_options") or {}).get("include_usage"):
        await response.write(_event({"choices": [], "usage": usage}))
    await response.write(b"data: [DONE]\n\n")
    return response


def _event(chunk: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps({"id": "c", "object": "chat.completion.chunk", **chunk}).encode() + b"\n\n"


def application() -> web.Application:
    made = web.Application(client_max_size=1 << 28)
    made.router.add_get("/v1/models", models)
    made.router.add_post("/v1/chat/completions", chat)
    return made


if __name__ == "__main__":
    web.run_app(application(), host="0.0.0.0", port=int(sys.argv[1]), print=None)
