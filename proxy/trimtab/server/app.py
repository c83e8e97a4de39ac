"""The ASGI application: everything under `/v1/` goes straight to the front, because the hot path needs the bytes and
nothing between it and them; health and metrics are ordinary litestar routes.
"""

from __future__ import annotations

from typing import Any

from litestar import Litestar, MediaType, Request, Response, get
from litestar.exceptions import HTTPException
from litestar.types import ASGIApp

from trimtab.errors import RequestError
from trimtab.server.parts import Parts
from trimtab.wire import problem


def create_app(parts: Parts) -> ASGIApp:
    """The application over running parts."""
    pages, front = create_pages(parts), parts.front

    async def app(scope: Any, receive: Any, send: Any) -> None:
        # The path as it was sent: `/%761/` is none of ours, and must not reach an upstream as something else.
        api = scope["type"] == "http" and (scope.get("raw_path") or b"").startswith(b"/v1/")
        await (front if api else pages)(scope, receive, send)

    return app


def create_pages(parts: Parts) -> Litestar:
    """What is no call of the API: for operators, and for those who took a wrong turn."""

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
        [live, ready, metrics],
        on_shutdown=[parts.aclose],
        exception_handlers={HTTPException: _problem},
        openapi_config=None,
        logging_config=None,
    )


def _problem(_: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    """An unknown path or method outside `/v1/`, in the same envelope as every other error."""
    hint = RequestError(f"{error.detail}. The API is under /v1/: set the SDK's base_url to http://HOST:PORT/v1.")
    return Response(problem.envelope(hint), status_code=error.status_code, media_type=MediaType.JSON)
