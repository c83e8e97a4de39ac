"""The recorded conversations in each dialect, step by step through the running proxy, against a strict upstream.

    python -m tests.bench.recordings [--steps 20 --window 32768 --only NAME --thinks]

The upstream counts real o200k tokens of what the three dialects have in common (`back_to_chat`), refuses what does not
fit or breaks the dialect's rules, and serves prefixes from a cache. Columns as in the arena:

  refused    answered with an error although shortening could have helped      identical  of those that fit: sent as is
  invalid    broke the rules of the dialect      lost  the newest user message, or the system prompt, did not arrive
  cached     share of input tokens from the cache   cost  (fresh + 0.1 cached) over the tokens of the raw histories
  unbound    thinking blocks that were not valid where they stood (--thinks; a request that fits only by the upstream's
             count is then shaped, because its thinking would be bound to what is never sent again)
  support    share of what the recorded agent needed next that arrived (arena/support.py)

The last line is the largest difference to chat's, over support, cached and cost; the aim is 0.02.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from aiohttp import web

from tests.bench.policy import CORPUS, PrefixCache, count, load, rendered, requests
from tests.dialects.turns import Bindings
from tests.dialects.turns import complaints as turn_complaints
from tests.support.back_to_chat import chat_of
from tests.support.converted import as_messages, as_responses, without_system
from tests.support.pairs import broken_pairs
from tests.support.served import serving
from trimtab.context.read.views import view
from trimtab.dialects.dialect import Dialect
from trimtab.dialects.paths import DIALECTS

Message = dict[str, Any]
MODEL = "recorded-model"
BINDING_MODEL = "claude-opus-5-5"  # its thinking is valid only after the very messages it was made after


def converted(dialect: Dialect, request: Message, thinks: bool) -> Message:
    """The chat request in a dialect."""
    if dialect.name == "chat":
        return request
    make = as_responses if dialect.name == "responses" else as_messages
    return make(request, thinks=thinks)


def complaints(dialect: Dialect, body: Message) -> int:
    """How many rules of the dialect a body breaks."""
    chat = [msgspec.json.encode(message) for message in chat_of(dialect.name, body)]
    found = broken_pairs([view(raw) for raw in chat])
    if dialect.name == "messages":
        found += len(turn_complaints(body["messages"]))
    if dialect.name == "responses":
        found += _lonely_reasoning(body["input"])
    return found


def _lonely_reasoning(items: list[Message]) -> int:
    """Reasoning without what follows it, and calls that lost the reasoning they came with."""
    found, thinks = 0, any(item.get("type") == "reasoning" for item in items)
    for before, item, after in zip([{}, *items], items, [*items[1:], {}], strict=False):
        kind = item.get("type")
        if kind == "reasoning":
            found += not (after.get("type", "").endswith("_call") or after.get("role") == "assistant")
        if thinks and kind == "function_call" and before.get("type") not in ("reasoning", "function_call", "message"):
            found += 1
    return found


@dataclass
class Upstream:
    """Runs in the current event loop: `async with Upstream(28_672) as upstream`."""

    limit: int  # tokens of input
    window: int
    cache: PrefixCache = field(default_factory=PrefixCache)
    body: bytes = b""  # what arrived last, and was accepted
    tokens: int = 0
    hit: int = 0
    base_url: str = ""

    async def __aenter__(self) -> Upstream:
        app = web.Application(client_max_size=64 << 20)
        for dialect in DIALECTS:
            app.router.add_post(dialect.path, self._answer(dialect))
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
        return web.json_response({"object": "list", "data": [model, {**model, "id": BINDING_MODEL}]})

    def _answer(self, dialect: Dialect) -> Any:
        async def answer(http: web.Request) -> web.Response:
            raw = await http.read()
            body = msgspec.json.decode(raw)
            items = [msgspec.json.encode(m) for m in chat_of(dialect.name, body)]
            tokens = sum(map(count, items)) + self.tools
            if tokens > self.limit:
                return web.json_response(_refusal(dialect, tokens, self.window), status=400)
            self.body, self.tokens = raw, tokens
            self.hit = min(tokens, self.cache.read([self.schemas, *items]))
            return web.json_response(_completion(dialect, tokens, self.hit))

        return answer

    def begin(self, tools: list[bytes]) -> None:
        """Another conversation; its tools count as in chat."""
        self.cache, self.tools = PrefixCache(), sum(map(count, tools))
        self.schemas = b"[" + b",".join(tools) + b"]"


def _refusal(dialect: Dialect, tokens: int, window: int) -> Message:
    if dialect.name == "messages":
        words = f"prompt is too long: {tokens} tokens > {window} maximum"
        return {"type": "error", "error": {"type": "invalid_request_error", "message": words}}
    words = (
        f"This model's maximum context length is {window} tokens. However, your messages resulted in {tokens} tokens."
    )
    if dialect.name == "responses":
        words = "Your input exceeds the context window of this model. Please adjust your input and try again."
    return {"error": {"message": words, "type": "invalid_request_error", "code": "context_length_exceeded"}}


def _completion(dialect: Dialect, tokens: int, hit: int) -> Message:
    if dialect.name == "messages":
        usage = {"input_tokens": tokens - hit, "cache_read_input_tokens": hit, "output_tokens": 8}
        content = [{"type": "text", "text": "Done."}]
        return {"id": "msg_1", "type": "message", "role": "assistant", "content": content, "usage": usage}
    if dialect.name == "responses":
        usage = {"input_tokens": tokens, "input_tokens_details": {"cached_tokens": hit}, "output_tokens": 8}
        part = {"type": "output_text", "text": "Done."}
        item = {"type": "message", "role": "assistant", "content": [part]}
        return {"id": "resp_1", "object": "response", "status": "completed", "output": [item], "usage": usage}
    usage = {"prompt_tokens": tokens, "completion_tokens": 8, "prompt_tokens_details": {"cached_tokens": hit}}
    choice = {"index": 0, "message": {"role": "assistant", "content": "Done."}, "finish_reason": "stop"}
    return {"id": "chatcmpl-1", "object": "chat.completion", "choices": [choice], "usage": usage}


def support_of() -> Any:
    """The arena's measure of support."""
    path = CORPUS.parent.parent / "arena" / "support.py"
    spec = importlib.util.spec_from_file_location("support", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass
class Score:
    """Of one dialect, over all recordings."""

    requests: int = 0
    over: int = 0
    refused: int = 0
    invalid: int = 0
    lost: int = 0
    unbound: int = 0
    fits: int = 0
    identical: int = 0
    raw: int = 0
    sent: int = 0
    cached: int = 0
    supports: list[Any] = field(default_factory=list)

    def figures(self, support: Any) -> dict[str, float]:
        """What is compared with chat's."""
        return {
            "support": support.summary(self.supports).get("support", 0.0),
            "cached": self.cached / max(1, self.sent),
            "cost": (self.sent - 0.9 * self.cached) / max(1, self.raw),
        }


class Thoughts:
    """The thinking of one recording, in the Messages API: what each was made after, and whether that is before it. What
    was made before the first step of the replay is taken to be valid in that step, as the proxy would have sent it."""

    def __init__(self, messages: list[Message]) -> None:
        self._messages, self._bindings, self._made = messages, Bindings(), set[str]()

    def broken(self, length: int, sent: list[Message]) -> int:
        """How many are not valid where they stand in what was sent at one step; the next is made after that."""
        is_first = not self._made
        for at, message in enumerate(sent):
            for block in message["content"]:
                if block["type"] == "thinking" and block["signature"] not in self._made:
                    self._make(int(block["signature"].removeprefix("sig_")), sent[:at] if is_first else [])
        found = self._bindings.broken(sent)
        self._make(len(without_system(self._messages[:length])), sent)
        return len(found)

    def _make(self, n: int, after: list[Message]) -> None:
        self._bindings.make(n, after)
        self._made.add(f"sig_{n}")


class Replay:
    """One run over the recordings, in every dialect."""

    def __init__(self, upstream: Upstream, proxy: str, given: argparse.Namespace) -> None:
        self._upstream, self._proxy, self._given, self._support = upstream, proxy, given, support_of()
        self.scores = {dialect.name: Score() for dialect in DIALECTS}

    async def recording(self, path: Path) -> None:
        """One recording, where it does not fit as it is."""
        messages, tools = load(path)
        given, limit = self._given, self._upstream.limit
        if sum(map(count, [*tools, *messages])) <= limit:
            return
        read, schemas = [msgspec.json.decode(m) for m in messages], [msgspec.json.decode(t) for t in tools]
        steps = requests(messages, tools, limit, given.steps)
        for dialect in DIALECTS:
            self._upstream.begin(tools)
            score = self.scores[dialect.name]
            supports = self._support.Score(read, schemas, rendered, lambda m: count(msgspec.json.encode(m)))
            thoughts = Thoughts(read) if given.thinks and dialect.name == "messages" else None
            async with aiohttp.ClientSession() as session:
                for length, _ in steps:
                    model = BINDING_MODEL if thoughts else MODEL
                    request = {"model": model, "messages": read[:length], "max_tokens": given.window - limit}
                    body = converted(dialect, {**request, **({"tools": schemas} if tools else {})}, given.thinks)
                    await self._step(session, dialect, body, length, supports)
                    if thoughts:
                        score.unbound += thoughts.broken(length, msgspec.json.decode(self._upstream.body)["messages"])
            score.supports.append(supports)
            if given.verbose:
                print(path.name[:40], dialect.name, score.figures(self._support), flush=True)

    async def _step(
        self, session: aiohttp.ClientSession, dialect: Dialect, body: Message, length: int, supports: Any
    ) -> None:
        upstream, score, payload = self._upstream, self.scores[dialect.name], msgspec.json.encode(body)
        chat = chat_of(dialect.name, body)
        raw = sum(count(msgspec.json.encode(m)) for m in chat) + upstream.tools
        fits = raw <= upstream.limit
        score.requests += 1
        score.over += not fits
        async with session.post(self._proxy + dialect.path, data=payload) as answer:
            if answer.status != 200:
                score.refused += 1
                print("refused", dialect.name, length, (await answer.text())[:300])
                return
        arrived = msgspec.json.decode(upstream.body)
        sent = chat_of(dialect.name, arrived)
        score.raw += raw
        score.sent += upstream.tokens
        score.cached += upstream.hit
        score.invalid += complaints(dialect, arrived) > complaints(dialect, body)
        score.lost += any(m not in sent for m in _kept(chat))
        score.fits += fits
        score.identical += fits and upstream.body == payload
        if not fits:
            supports.step(length, sent, upstream.tokens - upstream.tools)


def _kept(chat: list[Message]) -> list[Message]:
    """What must arrive: the system prompt, the newest user message."""
    users = [m for m in chat if m["role"] == "user"]
    return [*(m for m in chat[:1] if m["role"] == "system"), *users[-1:]]


async def replayed(given: argparse.Namespace) -> dict[str, Score]:
    """The scores of all recordings whose name contains `given.only`, by dialect."""
    limit = given.window - given.max_output
    async with Upstream(limit, given.window) as upstream, serving(upstream.base_url) as proxy:
        replay = Replay(upstream, proxy.url, given)
        for path in sorted(CORPUS.glob("*.json.gz")):
            if given.only in path.name:
                await replay.recording(path)
    return replay.scores


def apart(scores: dict[str, Score]) -> float:
    """The largest difference to chat's of the figures that are compared."""
    of = {name: score.figures(support_of()) for name, score in scores.items()}
    return max(abs(of[name][k] - of["chat"][k]) for name in of for k in of["chat"])


def show(scores: dict[str, Score]) -> None:
    of = {name: score.figures(support_of()) for name, score in scores.items()}
    for name, score in scores.items():
        shown = " ".join(
            f"{k}={getattr(score, k)}" for k in ("requests", "over", "refused", "invalid", "lost", "unbound")
        )
        identical = score.identical / max(1, score.fits)
        print(f"{name:10} {shown} identical={identical:.3f}", *(f"{k}={v:.4f}" for k, v in of[name].items()))
    print(f"furthest from chat: {apart(scores):.4f}")


def arguments(*given: str) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--window", type=int, default=32_768)
    parser.add_argument("--max-output", type=int, default=4_096)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--only", default="")
    parser.add_argument("--thinks", action="store_true", help="each answer begins with its thinking")
    parser.add_argument("-v", "--verbose", action="store_true")
    return parser.parse_args(given)


def main() -> None:
    show(asyncio.run(replayed(arguments(*sys.argv[1:]))))


if __name__ == "__main__":
    main()
