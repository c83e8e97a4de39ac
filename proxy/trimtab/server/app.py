"""The ASGI application. Everything under `/v1/` goes straight to the front, because the hot path needs the bytes and
nothing between it and them. What is ours is served by litestar: health, metrics, the plan endpoint, and the OpenAPI
document of these at `/schema/openapi.json`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from litestar import Litestar, MediaType, Request, Response, get, post, route
from litestar.datastructures import ResponseHeader
from litestar.enums import HttpMethod
from litestar.exceptions import HTTPException, MethodNotAllowedException
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import OpenAPIMediaType, OpenAPIType, Operation, RequestBody, Schema
from litestar.params import QueryParameter
from litestar.types import ASGIApp

from trimtab import __version__
from trimtab.errors import RequestError, TrimtabError
from trimtab.exchange.explain import ContextPlan
from trimtab.exchange.incoming import PLAN, REQUEST_ID, Incoming, with_request_id
from trimtab.exchange.spellings import api_path
from trimtab.server.asgi import incoming_of
from trimtab.server.conversations import conversation_routes, serves
from trimtab.server.cors import Cors
from trimtab.server.files import file_routes, serves_file
from trimtab.server.front import Front
from trimtab.server.parts import Parts
from trimtab.server.ui import create_ui, guarded
from trimtab.wire import problem

_MB = 1 << 20
_PLACE = re.compile(r"\{[^}]*\}")  # of a path's parameter
_DOCUMENT = "/schema/openapi.json"
_BODY = "Answer with the body that would be sent instead of the plan. A note stands where a summary would be asked for."
AsBody = Annotated[bool, QueryParameter(name="body", description=_BODY)]
AnyRequest = Request[Any, Any, Any]


def create_app(parts: Parts) -> ASGIApp:
    """The application over running parts."""
    pages = create_pages(parts)
    # A body above what may be in flight at all would be told to come again for ever.
    max_body = min(parts.settings.server.max_body_mb * _MB, parts.load.max_bytes)
    held = parts.settings.conversations is not None
    front = Front(parts.gateway, parts.load, parts.watches, max_body, pages, _stored if held else None)
    origins = parts.settings.server.allowed_origins
    api: Any = Cors(front, origins) if origins else front  # type: ignore[arg-type]
    shared: Any = Cors(pages, origins) if origins else pages
    private = guarded(pages)

    def app(scope: Any, receive: Any, send: Any) -> Any:
        if scope["type"] != "http":
            return pages(scope, receive, send)
        # The path as it was sent: `/%761/` is another path, and must not reach an upstream as `/v1/`.
        if is_api(scope["method"], scope.get("raw_path") or b""):
            return api(scope, receive, send)
        # What operators see is for its own page: origins that may call the API may not read it.
        return (private if scope["path"].startswith("/ui") else shared)(scope, receive, send)

    return app


def _stored(method: str, endpoint: str) -> bool:
    """True for a request that may be about something stored here."""
    return serves(method, endpoint) or serves_file(method, endpoint)


def is_api(method: str, raw_path: bytes) -> bool:
    """True for a path that goes to an upstream, in any of its spellings."""
    if raw_path.startswith(b"/v1/"):
        return True
    return api_path(method, raw_path.split(b"?")[0].decode("latin-1")) is not None


class Health(msgspec.Struct, frozen=True):
    """Whether the process runs."""

    status: Literal["live"] = "live"


class Readiness(msgspec.Struct, frozen=True):
    """Whether new requests are welcome, and how many are in flight."""

    status: Literal["ready", "draining"]
    in_flight: int


class ErrorDetail(msgspec.Struct, frozen=True):
    """What is wrong, where, and what to do next. An error may have further fields."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorEnvelope(msgspec.Struct, frozen=True):
    """OpenAI's error envelope, which every error of this proxy has."""

    error: ErrorDetail


@dataclass
class _ManagedBody(Operation):
    """An operation that takes the body of a managed request, which is read by the proxy and not by litestar."""

    def __post_init__(self) -> None:
        schema = Schema(type=OpenAPIType.OBJECT)
        self.request_body = RequestBody(
            {"application/json": OpenAPIMediaType(schema)},
            description="The body of a request, as POST /v1/chat/completions, /v1/responses or /v1/messages takes it.",
            required=True,
        )


def create_metrics_app(parts: Parts) -> Litestar:
    """Health and metrics alone, for a listener of their own that Prometheus may reach and clients need not."""
    handlers = [*_health(parts), _metrics(parts)]
    return Litestar(handlers, exception_handlers={HTTPException: _wrong_turn}, openapi_config=None, logging_config=None)


def _health(parts: Parts) -> list[HTTPRouteHandler]:
    @route("/healthz/live", http_method=[HttpMethod.GET, HttpMethod.HEAD], sync_to_thread=False)
    def live() -> Health:
        """The process runs."""
        return Health()

    @route("/healthz/ready", http_method=[HttpMethod.GET, HttpMethod.HEAD], sync_to_thread=False)
    def ready() -> Response[Readiness]:
        """New requests are welcome; 503 while the server drains."""
        draining = parts.load.leaving
        status = Readiness("draining" if draining else "ready", parts.load.requests)
        return Response(status, status_code=503 if draining else 200)

    return [live, ready]


def _metrics(parts: Parts) -> HTTPRouteHandler:
    @get("/metrics", sync_to_thread=False, media_type=MediaType.TEXT)
    def metrics(request: AnyRequest) -> Response[bytes]:
        """Metrics for Prometheus, in the format that the scraper asks for."""
        body, kind = parts.telemetry.render(request.headers.get("accept", ""))
        return Response(body, headers={"content-type": kind})

    return metrics


def create_pages(parts: Parts) -> Litestar:
    """The endpoints of our own, for operators and for clients that want to know what would be done. Metrics are among
    them unless they have a listener of their own."""
    metrics = [] if parts.settings.server.metrics_port else [_metrics(parts)]
    stores = parts.settings.conversations is not None
    held = [*conversation_routes(parts.gateway), *file_routes(parts.gateway)] if stores else []
    refused = ResponseSpec(ErrorEnvelope, generate_examples=False, description="Refused, with the reason.")
    ui = create_ui(parts, parts.ring, refused) if parts.ring is not None else []

    @post(
        PLAN,
        status_code=200,
        operation_class=_ManagedBody,
        responses={400: refused, 401: refused, 413: refused, 503: refused},
        response_headers=[ResponseHeader(name=REQUEST_ID.decode(), documentation_only=True)],
    )
    async def plan(request: AnyRequest, as_body: AsBody = False) -> Response[ContextPlan]:
        """What would be done with a request, of any of the three formats: nothing is sent and no model is called. With
        `?body=true`, the body that would be sent, byte for byte."""
        incoming: Incoming = request.state.incoming
        if as_body:
            sent: Any = await parts.gateway.planned_body(incoming, request.state.body)
            return Response(sent, media_type=MediaType.JSON, headers=_ids(incoming))
        explained = await parts.gateway.plan(incoming, request.state.body)
        return Response(explained, headers=_ids(incoming))

    return Litestar(
        [*_health(parts), *metrics, plan, *ui, *held],
        on_shutdown=[parts.aclose],
        exception_handlers={HTTPException: _wrong_turn, TrimtabError: _refused},
        openapi_config=OpenAPIConfig(
            "Trimtab",
            __version__,
            path=_DOCUMENT,
            use_handler_docstrings=True,
            render_plugins=[JsonRenderPlugin(path="/")],
        ),
        logging_config=None,
    )


def _ids(incoming: Incoming) -> dict[str, str]:
    return {name.decode(): value.decode("latin-1") for name, value in with_request_id((), incoming.request_id)}


def _wrong_turn(request: AnyRequest, error: HTTPException) -> Response[bytes]:
    """An unknown path or a wrong method, in the same envelope as every other error."""
    # Paths under /v1/ have it already.
    incoming: Incoming = request.scope["state"].get("incoming") or incoming_of(dict(request.scope))
    headers = _ids(incoming)
    if isinstance(error, MethodNotAllowedException):
        allowed = _methods(request)
        hint = RequestError(f"Method {request.method} is not allowed here. Use {allowed}.")
        headers["allow"] = allowed
    else:
        hint = RequestError(f"{error.detail}. The API is under /v1/: set the SDK's base_url to http://HOST:PORT/v1.")
    if error.status_code < 500:
        headers |= {name.decode(): value.decode() for name, value in problem.headers(hint)}
    body = problem.envelope(hint, incoming.request_id)
    return Response(body, status_code=error.status_code, media_type=MediaType.JSON, headers=headers)


def _methods(request: AnyRequest) -> str:
    """The methods of a path, as the header Allow has them (RFC 9110 §10.2.1)."""
    path = request.scope["path"].rstrip("/")
    known = [each for each in request.app.routes if re.fullmatch(_PLACE.sub("[^/]+", each.path), path)]
    return ", ".join(sorted({method for each in known for method in each.methods}))


def _refused(request: AnyRequest, error: TrimtabError) -> Response[bytes]:
    """An error of the tree, as the gateway would have written it."""
    incoming: Incoming | None = request.scope["state"].get("incoming")  # of paths under /v1/
    headers = {name.decode(): value.decode() for name, value in problem.headers(error)}
    headers |= _ids(incoming) if incoming is not None else {}
    request_id = incoming.request_id if incoming is not None else None
    return Response(problem.envelope(error, request_id), status_code=error.status, headers=headers)
