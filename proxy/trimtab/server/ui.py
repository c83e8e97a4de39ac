"""The pages under `/ui` and the API under them, as litestar handlers over running parts.

The page's own files hold no data and are open. Everything under `/ui/api` asks `PageAccess` first. No answer is
stored, also none that is an error; nothing is fetched from elsewhere, no script runs that is not a file of ours, and no
page of another site may show ours in a frame.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from litestar import MediaType, Request, Response, Router, get, post
from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import OpenAPIMediaType, OpenAPIType, Operation, RequestBody, Schema
from litestar.params import FromPath, Parameter
from litestar.response import Stream
from litestar.types import ASGIApp

from trimtab.errors import NotKept
from trimtab.exchange.offload import LIGHT_NEW, beside, planned_beside
from trimtab.resources import page_files
from trimtab.server.parts import Parts
from trimtab.server.status import models_of, status_of
from trimtab.ui.access import PageAccess
from trimtab.ui.compare import Comparison, Preview, as_sent, asked_of
from trimtab.ui.ring import Kept, Ring
from trimtab.ui.shown import (
    Conversation,
    Conversations,
    Exchanges,
    KnownModels,
    ShownExchange,
    Status,
    Window,
    columns,
    conversations,
    shown,
    window,
)
from trimtab.upstream.families import summary_role
from trimtab.wire.media import EVENT_STREAM

# What pages ask for is worked out in a thread of its own: figures of a long conversation take some milliseconds.
_PAGES = ThreadPoolExecutor(max_workers=1, thread_name_prefix="trimtab-pages")
_MB = 1 << 20
_LOOK_S = 1.0  # seconds after which an open stream looks whether the server stops
_BEAT_S = 15  # looks without an exchange after which a comment shows that the stream lives
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml", "txt": "text/plain"}
_ON_EVERY_ANSWER = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_EVENTS = ResponseSpec(ShownExchange, generate_examples=False, media_type=EVENT_STREAM)
AnyRequest = Request[Any, Any, Any]
Refusals = Mapping[int, ResponseSpec]
After = Annotated[int, Parameter(ge=0, description="Only exchanges with a higher number.")]


@dataclass
class _AskedBody(Operation):
    """An operation whose body is read by the proxy and not by litestar: a part of it is kept as bytes."""

    def __post_init__(self) -> None:
        fields = {
            "body": Schema(type=OpenAPIType.OBJECT, description="A request, in any of the dialects."),
            "number": Schema(type=OpenAPIType.INTEGER, description="Of an exchange with text, in place of a body."),
            "profile": Schema(type=OpenAPIType.STRING),
            "shaping": Schema(type=OpenAPIType.OBJECT, description="Keys of [shaping] to change."),
            "context_size": Schema(type=OpenAPIType.INTEGER, description="The model's window, in tokens."),
        }
        schema = Schema(type=OpenAPIType.OBJECT, properties=fields)  # type: ignore[arg-type]
        self.request_body = RequestBody({"application/json": OpenAPIMediaType(schema)}, required=True)


def guarded(pages: ASGIApp) -> ASGIApp:
    """`pages` with our headers on every answer that lacks them: those of a handler, a refusal, an unknown path."""
    ours = [(name.encode(), value.encode()) for name, value in _ON_EVERY_ANSWER.items()]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                given = {bytes(name).lower() for name, _ in message["headers"]}
                missing = [pair for pair in ours if pair[0] not in given]
                message = {**message, "headers": [*message["headers"], *missing]}
            await send(message)

        await pages(scope, receive, send_with_headers)

    return app


def create_ui(parts: Parts, ring: Ring, refused: ResponseSpec) -> list[Router]:
    """The page's files, and the API it reads. `refused` describes its errors in the OpenAPI document."""
    access = PageAccess(parts.settings.ui.keys)

    def guard(connection: ASGIConnection[Any, Any, Any, Any], _: BaseRouteHandler) -> None:
        access.check({name.lower(): value for name, value in connection.headers.items()})

    refusals = {400: refused, 401: refused, 403: refused}
    api = Router(
        "/ui/api",
        route_handlers=[
            *_exchanges(parts, ring, {**refusals, 404: refused}),
            *_conversations(ring, {**refusals, 404: refused}),
            *_process(parts, ring, refusals),
            *_plans(parts, ring, {**refusals, 404: refused, 413: refused}),
        ],
        guards=[guard],
        tags=["ui"],
    )
    return [Router("/ui", route_handlers=[_file(name, data) for name, data in page_files().items()]), api]


def _file(name: str, data: bytes) -> Any:
    """One file of the page. Browsers keep it, and ask each time whether it is still the same."""
    tag = f'"{hashlib.sha256(data).hexdigest()[:16]}"'
    kind = f"{_TYPES[name.rpartition('.')[2]]}; charset=utf-8"
    headers = {"cache-control": "no-cache", "etag": tag, "content-type": kind}
    paths = ["/", f"/{name}"] if name == "index.html" else [f"/{name}"]

    @get(paths, include_in_schema=False, sync_to_thread=False, media_type=kind)
    def file(request: AnyRequest) -> Response[bytes]:
        if request.headers.get("if-none-match") == tag:
            return Response(b"", status_code=304, headers=headers)
        return Response(data, headers=headers)

    return file


def _exchanges(parts: Parts, ring: Ring, refusals: Refusals) -> list[Any]:
    @get("/exchanges", sync_to_thread=False, responses=refusals)
    def exchanges(after: After = 0) -> Exchanges:
        """The exchanges that are kept, oldest first."""
        parts.telemetry.settle()
        return Exchanges([shown(kept) for kept in ring.after(after)], ring.newest)

    @get("/exchanges/{number:int}", responses=refusals)
    async def exchange(number: FromPath[int]) -> Window:
        """One request, message by message: kinds, sizes, stages and reasons."""
        return await beside(_PAGES, window, _found(ring, number))

    @get("/events", media_type=EVENT_STREAM, responses={**refusals, 200: _EVENTS})
    async def events(after: After = 0) -> Stream:
        """Exchanges as they end, as server-sent events; the data of an event is one exchange. The first events are
        those that are kept."""
        return Stream(_stream(parts, ring, after), media_type=EVENT_STREAM)

    return [exchanges, exchange, events]


async def _stream(parts: Parts, ring: Ring, after: int) -> AsyncIterator[bytes]:
    silent = 0
    yield b": open\n\n"  # so that the headers go out now
    async for found in ring.follow(after, _LOOK_S):
        if parts.load.leaving:
            return
        silent = 0 if found else silent + 1
        for kept in found:
            yield b"event: exchange\nid: %d\ndata: %b\n\n" % (kept.number, msgspec.json.encode(shown(kept)))
        if silent >= _BEAT_S:
            silent = 0
            yield b": alive\n\n"


def _conversations(ring: Ring, refusals: Refusals) -> list[Any]:
    @get("/conversations", responses=refusals)
    async def listed() -> Conversations:
        """The conversations whose requests are kept, newest first."""
        return Conversations(await beside(_PAGES, conversations, ring.after(0)))

    @get("/conversations/{name:str}", responses=refusals)
    async def one(name: FromPath[str]) -> Conversation:
        """One conversation: a column for each request, by kind of tokens."""
        found = await beside(_PAGES, columns, ring.after(0), name)
        if not found:
            raise NotKept("No request of this conversation is kept any more. See /ui/api/conversations.")
        return Conversation(name, found)

    return [listed, one]


def _process(parts: Parts, ring: Ring, refusals: Refusals) -> list[Any]:
    @get("/status", sync_to_thread=False, responses=refusals)
    def status() -> Status:
        """Totals since the start, and the health of upstreams, Redis and summaries."""
        return status_of(parts, ring)

    @get("/models", sync_to_thread=False, responses=refusals)
    def models() -> KnownModels:
        """The models that are configured or were asked for: limits with their sources, factors, what was learned."""
        return models_of(parts, ring)

    return [status, models]


def _plans(parts: Parts, ring: Ring, refusals: Refusals) -> list[Any]:
    @get("/exchanges/{number:int}/text", responses=refusals)
    async def text(number: FromPath[int]) -> Response[Comparison]:
        """A kept request before and after, as it was sent. Needs `[ui] text = true`."""
        kept = _found(ring, number)
        if kept.bodies is None:
            raise NotKept(_no_text(ring))
        upstream = next((each for each in parts.calls.upstreams if each.name == kept.exchange.upstream), None)
        role = summary_role(upstream, kept.exchange.model) if upstream is not None else "system"
        shaped = kept.exchange.outcome not in ("passed", "observed")
        return _written(await beside(_PAGES, lambda bodies: _json(as_sent(bodies, role, shaped=shaped)), kept.bodies))

    @post(
        "/plan",
        status_code=200,
        operation_class=_AskedBody,
        responses=refusals,
        request_max_body_size=parts.settings.server.max_body_mb * _MB,
    )
    async def plan(request: AnyRequest) -> Response[Comparison]:
        """What would be sent of a request, with text, under settings that may differ from those in force. Nothing is
        sent, no model is called."""
        data = await request.body()
        heavy = len(data) > LIGHT_NEW
        asked = await planned_beside(heavy, asked_of, data)
        kept = None if asked.number is None else _found(ring, asked.number)
        if kept is not None and kept.bodies is None:
            raise NotKept(_no_text(ring))
        preview = Preview(parts.decider, parts.calls, parts.bounds)
        return _written(await planned_beside(heavy or kept is not None, lambda: _json(preview.plan(asked, kept))))

    return [text, plan]


def _json(comparison: Comparison) -> bytes:
    """Made in the thread that made the comparison: it has the text of a whole conversation, twice."""
    return msgspec.json.encode(comparison)


def _written(data: bytes) -> Response[Comparison]:
    return Response(data, media_type=MediaType.JSON)  # type: ignore[arg-type]


def _found(ring: Ring, number: int) -> Kept:
    kept = ring.find(number)
    if kept is None:
        raise NotKept("This exchange is no longer kept. `keep` in [ui] says how many are.")
    return kept


def _no_text(ring: Ring) -> str:
    if ring.keeps_text:
        return "The bodies of this exchange are no longer kept. `keep_text` in [ui] says of how many they are."
    return "Bodies are not kept. Set text = true in [ui] to see them; they stay in memory."
