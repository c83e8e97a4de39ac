"""Values of the exchange for tests: requests as they come in, decisions about them, a client's side that remembers."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from tests.support.scripted import Script, ScriptedUpstream
from trimtab.context.policy import Policy, ShapingSettings
from trimtab.context.read.history import history
from trimtab.context.read.memo import Memo
from trimtab.exchange.calls import Calls
from trimtab.exchange.decide import Shaping, decide
from trimtab.exchange.incoming import Headers, Incoming, asks_of, first_values
from trimtab.exchange.spellings import endpoint_of
from trimtab.exchange.verdict import Verdict, inspect
from trimtab.limits import Limit
from trimtab.upstream.client import Client
from trimtab.upstream.settings import UpstreamSettings
from trimtab.wire.chat import decode
from trimtab.wire.request import Request

WINDOW = Limit(context_size=8_192, max_output_tokens=1_024, source="configured")


def incoming(path: str = "/v1/chat/completions", method: str = "POST", **headers: str) -> Incoming:
    """A request with these headers, `_` for `-`."""
    named = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    fields = first_values(named)
    return Incoming(method, path, endpoint_of(path), b"", named, "req-1", fields, asks_of(fields))


def request(messages: list[Any], **fields: Any) -> Request:
    return decode(msgspec.json.encode({"model": "m", "messages": messages, **fields}))


def shaping(
    messages: list[Any],
    *,
    limit: Limit = WINDOW,
    factor: float = 1.0,
    policy: Policy | None = None,
    rules: ShapingSettings | None = None,
    cap: int | None = None,
    **fields: Any,
) -> Shaping:
    """What is decided for a request with these messages and fields."""
    asked, memo = request(messages, **fields), Memo()
    policy = policy or Policy(shaping=rules or ShapingSettings())
    return decide(asked, history(asked.messages, asked.extras, memo), policy, limit, factor, memo, cap=cap)


@contextlib.asynccontextmanager
async def inspected(script: Script) -> AsyncIterator[Verdict]:
    client = Client()
    async with ScriptedUpstream(script) as upstream:
        settings = UpstreamSettings(name="up", base_url=upstream.base_url, retries=0)
        async with await client.send(settings, "POST", "/v1/chat/completions", b"", [], b"{}") as answer:
            yield await inspect(answer)
        await client.aclose()


@contextlib.asynccontextmanager
async def calling(
    *scripts: Script, keep_credentials: bool = True, **settings: Any
) -> AsyncIterator[tuple[Calls, UpstreamSettings, ScriptedUpstream]]:
    client = Client()
    async with ScriptedUpstream(*scripts) as upstream:
        named = UpstreamSettings(name="up", base_url=upstream.base_url, retries=0, **settings)
        yield Calls([named], client, keep_credentials=keep_credentials), named, upstream
        await client.aclose()


class Given:
    """A body that is there, or comes in pieces."""

    def __init__(self, *chunks: bytes) -> None:
        self._chunks = chunks

    async def read(self) -> bytes:
        return b"".join(self._chunks)

    async def chunks(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk


class Kept:
    """A client that keeps what it gets, write by write."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.writes: list[bytes] = []
        self.ended = False

    @property
    def started(self) -> bool:
        return bool(self.status)

    @property
    def body(self) -> bytes:
        return b"".join(self.writes)

    def header(self, name: bytes) -> bytes | None:
        return next((value for key, value in self.headers if key == name), None)

    async def start(self, status: int, headers: Headers) -> None:
        assert not self.started
        self.status, self.headers = status, list(headers)

    async def write(self, chunk: bytes) -> None:
        assert self.started
        assert not self.ended
        self.writes.append(chunk)

    async def end(self, chunk: bytes = b"") -> None:
        await self.write(chunk)
        self.ended = True
