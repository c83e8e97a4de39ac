"""The routes of stored conversations: `/v1/conversations`, and `/v1/responses/{id}`. They exist only with
`[conversations]`; without it these paths are passed on to the upstream like any other.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import msgspec
from litestar import MediaType, Request, Response, route
from litestar.enums import HttpMethod
from litestar.handlers import HTTPRouteHandler

from trimtab.conversations.conversations import Conversations
from trimtab.conversations.endpoints import Endpoints, Object
from trimtab.conversations.objects import page_of
from trimtab.conversations.uploads import UNKNOWN_TYPE
from trimtab.exchange.gateway import Gateway
from trimtab.exchange.incoming import Incoming, with_request_id

AnyRequest = Request[Any, Any, Any]
Of = TypeVar("Of")
Work = Callable[[Endpoints, AnyRequest], Awaitable[Object]]

_CONVERSATIONS: Final = "/v1/conversations"
_CONVERSATION: Final = _CONVERSATIONS + "/{name:str}"
_RESPONSE: Final = "/v1/responses/{name:str}"
_CANCELS = re.compile(r"/v1/responses/[^/]+/cancel")
_IS_RESPONSE = re.compile(r"/v1/responses/[^/]+(?:/input_items)?")

# What a client has uploaded is data: no browser is to open it as a page of this origin.
_AS_DATA: Final = {"x-content-type-options": "nosniff", "content-disposition": "attachment"}


def serves(method: str, endpoint: str) -> bool:
    """True for a request that one of these routes answers."""
    if endpoint == _CONVERSATIONS or endpoint.startswith(f"{_CONVERSATIONS}/"):
        return True
    if method == "POST":
        return _CANCELS.fullmatch(endpoint) is not None
    return method in ("GET", "DELETE") and _IS_RESPONSE.fullmatch(endpoint) is not None


async def _body(request: AnyRequest) -> bytes:
    body: bytes = await request.state.body.read()
    return body


def named(request: AnyRequest) -> str:
    """The name in the path of a request."""
    return str(request.path_params["name"])


async def _create(of: Endpoints, request: AnyRequest) -> Object:
    return await of.create(await _body(request))


async def _update(of: Endpoints, request: AnyRequest) -> Object:
    return await of.update(named(request), await _body(request))


async def _add_items(of: Endpoints, request: AnyRequest) -> Object:
    return await of.add_items(named(request), await _body(request))


async def _items(of: Endpoints, request: AnyRequest) -> Object:
    return await of.items(named(request), page_of(request.query_params))


async def _input_items(of: Endpoints, request: AnyRequest) -> Object:
    return await of.input_items(named(request), page_of(request.query_params))


_ROUTES: Final[tuple[tuple[HttpMethod, str, str, Work], ...]] = (
    (HttpMethod.GET, _RESPONSE, "A stored response", lambda of, r: of.response(named(r))),
    (HttpMethod.DELETE, _RESPONSE, "Delete a stored response", lambda of, r: of.delete_response(named(r))),
    (HttpMethod.POST, _RESPONSE + "/cancel", "Cancel a response", lambda of, r: of.cancel_response(named(r))),
    (HttpMethod.GET, _RESPONSE + "/input_items", "What the model got for a stored response", _input_items),
    (HttpMethod.POST, _CONVERSATIONS, "Make a conversation", _create),
    (HttpMethod.GET, _CONVERSATION, "A conversation, without its items", lambda of, r: of.conversation(named(r))),
    (HttpMethod.POST, _CONVERSATION, "Change the metadata of a conversation", _update),
    (HttpMethod.DELETE, _CONVERSATION, "Delete a conversation", lambda of, r: of.delete(named(r))),
    (HttpMethod.GET, _CONVERSATION + "/items", "The items of a conversation", _items),
    (HttpMethod.POST, _CONVERSATION + "/items", "Add items to a conversation", _add_items),
    (
        HttpMethod.GET,
        _CONVERSATION + "/items/{item:str}",
        "One item of a conversation",
        lambda of, r: of.item(named(r), str(r.path_params["item"])),
    ),
    (
        HttpMethod.DELETE,
        _CONVERSATION + "/items/{item:str}",
        "Delete an item of a conversation",
        lambda of, r: of.delete_item(named(r), str(r.path_params["item"])),
    ),
)


def conversation_routes(gateway: Gateway) -> list[HTTPRouteHandler]:
    """The handlers of all these routes."""
    return [stored_handler(gateway, Endpoints, *each) for each in _ROUTES]


def stored_handler(
    gateway: Gateway,
    endpoints: Callable[[Conversations, bytes], Of],
    method: HttpMethod,
    path: str,
    summary: str,
    work: Callable[[Of, AnyRequest], Awaitable[Any]],
) -> HTTPRouteHandler:
    """A route that answers with something stored: an object as JSON, bytes as a file that no browser runs."""
    name = f"{method.value} {path}"
    operation = re.sub(r"\W+", "_", name.replace(":str", ""))  # the handlers share the name of their function

    @route(path, http_method=method, status_code=200, summary=summary, name=name, operation_id=operation)
    async def answer(request: AnyRequest) -> Response[bytes]:
        incoming: Incoming = request.state.incoming
        found = await gateway.stored(incoming, lambda held, identity: work(endpoints(held, identity), request))
        ids = {name.decode(): value.decode("latin-1") for name, value in with_request_id((), incoming.request_id)}
        if isinstance(found, bytes):
            return Response(found, media_type=UNKNOWN_TYPE, headers={**ids, **_AS_DATA})
        return Response(msgspec.json.encode(found), media_type=MediaType.JSON, headers=ids)

    return answer
