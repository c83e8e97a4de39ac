"""The bare relay: what most people write first with this stack, a litestar route and an httpx client.

    python -m tests.bench.bare PORT UPSTREAM_ORIGIN

The client speaks over the aiohttp transport, which is by far the faster one (`bench_client`). Like the floor it reads
nothing, decides nothing and handles no error; unlike the floor it takes the frameworks as they are meant to be used.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from typing import Any

import httpx
import uvloop
from httpx_aiohttp import AiohttpTransport
from litestar import Litestar, Request, post
from litestar.response import Stream

from tests.bench.floor import serve

_HOP = ("host", "connection", "content-length", "transfer-encoding", "keep-alive")


def create_app(origin: str) -> Litestar:
    client = httpx.AsyncClient(transport=AiohttpTransport(), base_url=origin, timeout=None)

    @post("/v1/chat/completions", status_code=200)
    async def relay(request: Request[Any, Any, Any]) -> Stream:
        headers = [(k, v) for k, v in request.headers.items() if k not in _HOP]
        sent = client.build_request("POST", request.url.path, headers=headers, content=await request.body())
        answer = await client.send(sent, stream=True)
        return Stream(
            _chunks(answer),
            status_code=answer.status_code,
            headers={k: v for k, v in answer.headers.items() if k not in (*_HOP, "content-type")},
            media_type=answer.headers.get("content-type"),
        )

    return Litestar([relay], openapi_config=None, logging_config=None, request_max_body_size=None)


async def _chunks(answer: httpx.Response) -> AsyncIterator[bytes]:
    try:
        async for chunk in answer.aiter_raw():
            yield chunk
    finally:
        await answer.aclose()


if __name__ == "__main__":
    uvloop.run(serve(create_app(sys.argv[2]), int(sys.argv[1])))
