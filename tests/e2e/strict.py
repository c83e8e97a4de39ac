"""An upstream that is as strict as OpenAI and plays a model that reads page after page with the client's own tool.

It counts true o200k tokens, refuses what does not fit its window and what breaks the rules of tool calls, in
OpenAI's words. Its model calls whatever reading tool the client offers, once for each page of a `Book`, and ends with
one sentence. Requests without such a tool (agents ask for a title of the session) get a short text.

Whatever an accepted request lacks that a model would need is written into `complaints`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web
from msgspec import Raw

from tests.support.pairs import broken_pairs, starts_with_assistant
from trimtab.cli.demo.counting import Counter200k, broken_rule
from trimtab.context.read.memo import Memo

MODEL = "strict-model"
DONE = "All pages are read: the library stands complete."
READERS = ("read", "Read", "read_file", "read_page", "Read_File")
_WORDS = (
    "harbour",
    "lantern",
    "gravel",
    "orchard",
    "copper",
    "winter",
    "signal",
    "meadow",
    "anchor",
    "timber",
    "violet",
)


@dataclass(frozen=True)
class Book:
    """Pages of text as files: `MARK-n` in each shows that a result arrived whole."""

    folder: Path
    pages: int
    tokens: int  # of one page, about

    def write(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for n in range(self.pages):
            self.path(n).write_text(f"MARK-{n}\n{self._text(n)}\nEND-{n}\n")

    def path(self, n: int) -> Path:
        return self.folder / f"page-{n:02}.txt"

    @property
    def question(self) -> str:
        return (
            f"TASK-7731: read the {self.pages} files page-00.txt to page-{self.pages - 1:02}.txt in {self.folder}, "
            "one after the other, and then say what they hold."
        )

    def _text(self, n: int) -> str:
        words = (_WORDS[(i * i + 7 * n + i) % len(_WORDS)] for i in range(self.tokens))
        return textwrap.fill(" ".join(words), 90)


class _StreamOptions(msgspec.Struct):
    include_usage: bool = False


class _Request(msgspec.Struct):
    messages: list[Raw]
    model: str = MODEL
    tools: list[Raw] | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stream: bool = False
    stream_options: _StreamOptions | None = None

    @property
    def output(self) -> int:
        return self.max_completion_tokens or self.max_tokens or 0


@dataclass
class StrictUpstream:
    """Runs in the current event loop: `async with StrictUpstream(book, window=24_000) as upstream`."""

    book: Book
    window: int
    step: int = 0  # pages asked for
    finished: bool = False
    refused: int = 0
    accepted: list[int] = field(default_factory=list)  # tokens of each request of the run itself
    complaints: list[str] = field(default_factory=list)
    streamed: int = 0
    base_url: str = ""

    async def __aenter__(self) -> StrictUpstream:
        self._counter = Counter200k()
        self._system: bytes | None = None
        app = web.Application(client_max_size=64 << 20)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_get("/v1/models", self._models)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.base_url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _models(self, _: web.Request) -> web.Response:
        model = {"id": MODEL, "object": "model", "created": 1, "owned_by": "tests", "max_model_len": self.window}
        return web.json_response({"object": "list", "data": [model]})

    async def _chat(self, http: web.Request) -> web.StreamResponse:
        request = msgspec.json.decode(await http.read(), type=_Request)
        messages = self._counter.read(request.messages)
        size = sum(c.tokens for c in [*self._counter.read(request.tools or ()), *messages])
        if size + request.output > self.window:
            self.refused += 1
            return _refusal(self._too_long(size, request.output), "context_length_exceeded")
        if (problem := broken_rule(messages)) is not None:
            self.complaints.append(problem)
            return _refusal(problem, None)
        tool = _reader(request.tools or ())
        if tool is None:
            return await self._send(http, request, size, {"content": "Reading pages"})
        self._examine(request.messages)
        self.accepted.append(size)
        return await self._send(http, request, size, self._next(*tool))

    def _too_long(self, size: int, output: int) -> str:
        return (
            f"This model's maximum context length is {self.window} tokens. However, you requested {size + output} "
            f"tokens ({size} in the messages, {output} in the completion). Please reduce the length of the messages "
            "or completion."
        )

    def _examine(self, raws: Sequence[Raw]) -> None:
        """What a model needs: whole pairs, the question, the system prompt, the page it has just asked for."""
        views = Memo().views([bytes(raw) for raw in raws])
        texts = [bytes(raw) for raw in raws]
        users = [text for text, view in zip(texts, views, strict=True) if view.role == "user"]
        system = next((text for text, view in zip(texts, views, strict=True) if view.role == "system"), b"")
        self._system = system if self._system is None else self._system
        newest = b"END-%d" % (self.step - 1)
        wrong = {
            "broken pairs": broken_pairs(views) > 0,
            "begins with an assistant message": starts_with_assistant(views),
            "the question is lost": not any(b"TASK-7731" in text for text in users),
            "the system prompt changed": system != self._system,
            "the newest page is lost": self.step > 0 and not any(newest in text for text in texts),
        }
        self.complaints += [f"step {self.step}: {name}" for name, is_so in wrong.items() if is_so]

    def _next(self, tool: str, argument: str) -> dict[str, Any]:
        """The model's next message: the next page's call, or the end."""
        if self.step == self.book.pages:
            self.finished = True
            return {"content": DONE}
        arguments = msgspec.json.encode({argument: str(self.book.path(self.step))}).decode()
        call = {"id": f"call_{self.step:04}", "type": "function", "function": {"name": tool, "arguments": arguments}}
        self.step += 1
        return {"content": None, "tool_calls": [call]}

    async def _send(
        self, http: web.Request, request: _Request, size: int, message: dict[str, Any]
    ) -> web.StreamResponse:
        usage = {"prompt_tokens": size, "completion_tokens": 20, "total_tokens": size + 20}
        base = {"id": f"chatcmpl-{self.step}", "created": 1, "model": request.model}
        reason = "tool_calls" if message.get("tool_calls") else "stop"
        if not request.stream:
            choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason}
            whole = {**base, "object": "chat.completion", "choices": [choice], "usage": usage}
            return web.json_response(whole)
        self.streamed += 1
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(http)
        chunks: list[dict[str, Any]] = [
            {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in _deltas(message)
        ]
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
        if request.stream_options and request.stream_options.include_usage:
            chunks.append({"choices": [], "usage": usage})
        for chunk in chunks:
            event = {**base, "object": "chat.completion.chunk", **chunk}
            await response.write(b"data: " + msgspec.json.encode(event) + b"\n\n")
        await response.write(b"data: [DONE]\n\n")
        return response


def _deltas(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The message as OpenAI streams it: the role first, arguments of calls and text in pieces."""
    yield {"role": "assistant", "content": None if message.get("tool_calls") else ""}
    for index, call in enumerate(message.get("tool_calls") or ()):
        function = call["function"]
        yield {"tool_calls": [{**call, "index": index, "function": {**function, "arguments": ""}}]}
        arguments = function["arguments"]
        for at in range(0, len(arguments), 8):
            yield {"tool_calls": [{"index": index, "function": {"arguments": arguments[at : at + 8]}}]}
    for word in (message.get("content") or "").split():
        yield {"content": word + " "}


def _reader(tools: Sequence[Raw]) -> tuple[str, str] | None:
    """The client's tool that reads a file, and the name of its argument for the path."""
    functions = {f["name"]: f for f in (msgspec.json.decode(tool).get("function", {}) for tool in tools) if f}
    for name in READERS:
        if name in functions:
            properties = functions[name]["parameters"]["properties"]
            return name, next(key for key in properties if "path" in key.lower())
    return None


def _refusal(message: str, code: str | None) -> web.Response:
    error = {"message": message, "type": "invalid_request_error", "param": "messages", "code": code}
    return web.json_response({"error": error}, status=400)
