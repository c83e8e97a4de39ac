"""The litestar application: health and metrics as ordinary routes, everything under `/v1/` as one raw ASGI mount,
because the hot path needs the bytes and nothing between it and them.
"""

from __future__ import annotations

from typing import Any

from litestar import Litestar, MediaType, Request, Response, asgi, get
from litestar.exceptions import HTTPException

from proxy.errors import RequestError
from proxy.server.parts import Parts
from proxy.wire import problem


def create_app(parts: Parts) -> Litestar:
    """The application over running parts."""

    @asgi("/v1", is_mount=True, copy_scope=False)
    async def front(scope: Any, receive: Any, send: Any) -> None:
        await parts.front(scope, receive, send)

    @get("/healthz/live", sync_to_thread=False)
    def live() -> dict[str, str]:
        """The process runs."""
        return {"status": "live"}

    @get("/healthz/ready", sync_to_thread=False)
    def ready() -> Response[dict[str, Any]]:
        """New requests are welcome; 503 while the server drains."""
        draining = parts.load.leaving
        status = "draining" if draining else "ready"
        return Response({"status": status, "in_flight": parts.load.requests}, status_code=503 if draining else 200)

    @get("/metrics", sync_to_thread=False)
    def metrics(request: Request[Any, Any, Any]) -> Response[bytes]:
        body, kind = parts.telemetry.render(request.headers.get("accept", ""))
        return Response(body, headers={"content-type": kind})

    return Litestar(
        [front, live, ready, metrics],
        on_shutdown=[parts.aclose],
        exception_handlers={HTTPException: _problem},
        openapi_config=None,
        logging_config=None,
    )


def _problem(_: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    """An unknown path or method outside `/v1/`, in the same envelope as every other error."""
    hint = RequestError(f"{error.detail}. The API is under /v1/: set the SDK's base_url to http://HOST:PORT/v1.")
    return Response(problem.envelope(hint), status_code=error.status_code, media_type=MediaType.JSON)
