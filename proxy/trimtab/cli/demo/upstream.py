"""The demo's upstream: a chat-completions server with a small, strict window and a prefix cache.

It counts true tokens. What does not fit, or breaks the rules of tool calls, is refused in OpenAI's words. It reports
`usage` with the cached tokens, and its own time in `openai-processing-ms`, as OpenAI does. The answer is one fixed
sentence, because the replay continues with the recorded answer anyway.

The prefix cache follows OpenAI's guide on prompt caching: the longest beginning that a request shares with an earlier
one is cached, from 1,024 tokens on, in steps of 128. It remembers the last few requests, which is what a cache of some
minutes amounts to in one conversation.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from typing import Any

import msgspec
from aiohttp import web
from msgspec import Raw

from trimtab.cli.demo.counting import Counted, Counter200k, broken_rule

MODEL = "demo"
ANSWER = "Continuing with the next step."
LEAST, STEP = 1024, 128  # tokens that the prefix cache serves at least, and in steps of
REMEMBERED = 8  # requests that the prefix cache compares with
_MAX_BODY = 64 << 20  # bytes


class PrefixCache:
    """The prefix cache. Call `hit` for each request, in their order."""

    def __init__(self) -> None:
        self._seen: list[Sequence[Counted]] = []

    def hit(self, request: Sequence[Counted]) -> int:
        """How many tokens of `request` are cached. Remembers the request."""
        best = max((shared(request, earlier) for earlier in self._seen), default=0)
        self._seen = [*self._seen[1 - REMEMBERED :], request]
        return best // STEP * STEP if best >= LEAST else 0


def shared(a: Sequence[Counted], b: Sequence[Counted]) -> int:
    """Tokens of the common beginning of two requests, including a part of the first message that differs."""
    total = 0
    for one, other in zip(a, b, strict=False):
        if one is not other and one.raw != other.raw:
            return total + int(one.tokens * common(one.raw, other.raw) / max(1, len(one.raw)))
        total += one.tokens
    return total


def common(a: bytes, b: bytes) -> int:
    """Length of the common beginning of two byte strings, by bisection."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


class _StreamOptions(msgspec.Struct):
    include_usage: bool = False


class _Request(msgspec.Struct):
    messages: list[Raw]
    model: str = MODEL
    tools: list[Raw] | None = None
    max_tokens: int = 0
    stream: bool = False
    stream_options: _StreamOptions | None = None


class Upstream:
    """The server, in a thread of its own on a free loopback port: `with Upstream(32_768) as upstream:`. `window` is in
    tokens."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.refused = 0  # requests that did not fit
        self.base_url = ""
        self._counter = Counter200k()
        self._cache = PrefixCache()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="demo-upstream")

    def __enter__(self) -> Upstream:
        self._thread.start()
        port = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        self.base_url = f"http://127.0.0.1:{port}/v1"
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def forget(self) -> None:
        """Empty the cache and reset `refused`."""
        self._cache = PrefixCache()
        self.refused = 0

    async def _listen(self) -> int:
        app = web.Application(client_max_size=_MAX_BODY)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_get("/v1/models", self._models)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        return int(self._runner.addresses[0][1])

    async def _models(self, _: web.Request) -> web.Response:
        model: dict[str, Any] = {"id": MODEL, "object": "model", "owned_by": "trimtab", "max_model_len": self.window}
        return web.json_response({"object": "list", "data": [model]})

    async def _chat(self, http: web.Request) -> web.StreamResponse:
        body = await http.read()
        began = time.perf_counter()
        try:
            request = msgspec.json.decode(body, type=_Request)
            messages = self._counter.read(request.messages)
            sequence = self._counter.read(request.tools or ()) + messages
        except (msgspec.DecodeError, AttributeError, KeyError, TypeError):
            return _refusal("We could not parse the body of your request.", None)
        if (problem := self._too_long(sequence, request.max_tokens)) is not None:
            self.refused += 1
            return _refusal(problem, "context_length_exceeded")
        if (problem := broken_rule(messages)) is not None:
            return _refusal(problem, None)
        answer = self._answer(request, sequence)
        headers = {"openai-processing-ms": f"{(time.perf_counter() - began) * 1e3:.3f}"}
        if request.stream:
            return await _stream(http, request, answer, headers)
        return web.json_response(answer, headers=headers)

    def _too_long(self, sequence: list[Counted], max_tokens: int) -> str | None:
        """OpenAI's message for a request that does not fit, or None."""
        size = sum(counted.tokens for counted in sequence)
        limit = f"This model's maximum context length is {self.window} tokens. However, "
        if size > self.window:
            return f"{limit}your messages resulted in {size} tokens. Please reduce the length of the messages."
        if size + max_tokens > self.window:
            return (
                f"{limit}you requested {size + max_tokens} tokens ({size} in the messages, {max_tokens} in the "
                "completion). Please reduce the length of the messages or completion."
            )
        return None

    def _answer(self, request: _Request, sequence: list[Counted]) -> dict[str, Any]:
        size = sum(counted.tokens for counted in sequence)
        answered = self._counter.tokens(ANSWER)
        message = {"role": "assistant", "content": ANSWER}
        return {
            "id": "chatcmpl-demo",
            "object": "chat.completion",
            "created": 1,
            "model": request.model,
            "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
            "usage": {
                "prompt_tokens": size,
                "completion_tokens": answered,
                "total_tokens": size + answered,
                "prompt_tokens_details": {"cached_tokens": min(size, self._cache.hit(sequence))},
            },
        }


async def _stream(
    http: web.Request, request: _Request, answer: dict[str, Any], headers: dict[str, str]
) -> web.StreamResponse:
    """The same answer, as a stream of words."""
    usage = answer.pop("usage")
    base = {**answer, "object": "chat.completion.chunk"}
    deltas = [{"role": "assistant", "content": ""}, *({"content": f"{word} "} for word in ANSWER.split())]
    choices: list[list[dict[str, Any]]] = [[{"index": 0, "delta": delta, "finish_reason": None}] for delta in deltas]
    choices.append([{"index": 0, "delta": {}, "finish_reason": "stop"}])
    chunks: list[dict[str, Any]] = [{**base, "choices": choice} for choice in choices]
    if request.stream_options and request.stream_options.include_usage:
        chunks.append({**base, "choices": [], "usage": usage})
    response = web.StreamResponse(headers={"content-type": "text/event-stream", **headers})
    await response.prepare(http)
    for chunk in chunks:
        await response.write(b"data: " + msgspec.json.encode(chunk) + b"\n\n")
    await response.write(b"data: [DONE]\n\n")
    await response.write_eof()
    return response


def _refusal(message: str, code: str | None) -> web.Response:
    error: dict[str, Any] = {"message": message, "type": "invalid_request_error", "param": "messages", "code": code}
    return web.json_response({"error": error}, status=400)
