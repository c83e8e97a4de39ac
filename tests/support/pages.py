"""The pages' API of a running proxy, as a program reads it."""

from __future__ import annotations

from typing import Any

import aiohttp
import msgspec

from tests.support.chat import Call


async def ask(url: str, path: str, body: Any = None, **headers: str) -> Call:
    """GET `/ui/api` + path, or POST where there is a body."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    data = body if isinstance(body, bytes) or body is None else msgspec.json.encode(body)
    method = "GET" if body is None else "POST"
    whole = url + "/ui/api" + path
    async with aiohttp.ClientSession() as session, session.request(method, whole, data=data, headers=named) as answer:
        return Call(answer.status, answer.headers, await answer.read())


async def read(url: str, path: str, body: Any = None) -> Any:
    """The JSON of an answer that must be a 200."""
    answer = await ask(url, path, body)
    assert answer.status == 200, answer.body
    return answer.json()
