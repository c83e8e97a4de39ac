"""The routes of uploaded files, `/v1/files`, with `[conversations]`: the list, a file, its content. Uploads come
another way (`exchange.uploading`), since only their form says whether they are kept here. Files of the upstream are
passed on.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from litestar import MediaType, Request, Response, route
from litestar.enums import HttpMethod
from litestar.handlers import HTTPRouteHandler

from trimtab.conversations.file_objects import FileEndpoints, Object
from trimtab.conversations.uploads import UNKNOWN_TYPE
from trimtab.exchange.gateway import Gateway
from trimtab.exchange.incoming import Incoming, with_request_id
from trimtab.exchange.uploading import FILES

AnyRequest = Request[Any, Any, Any]
Work = Callable[[FileEndpoints, AnyRequest], Awaitable[Object | bytes]]

_FILE: Final = FILES + "/{name:str}"
_GET = re.compile(FILES + r"(?:/[^/]+(?:/content)?)?")
_DELETE = re.compile(FILES + r"/[^/]+")
# What a client has uploaded is data: no browser is to open it as a page of this origin.
_AS_DATA: Final = {"x-content-type-options": "nosniff", "content-disposition": "attachment"}


def serves_file(method: str, endpoint: str) -> bool:
    """True for a request that one of these routes answers, if the file is kept here."""
    pattern = {"GET": _GET, "DELETE": _DELETE}.get(method)
    return pattern is not None and pattern.fullmatch(endpoint) is not None


def _name(request: AnyRequest) -> str:
    return str(request.path_params["name"])


_ROUTES: Final[tuple[tuple[HttpMethod, str, str, Work], ...]] = (
    (HttpMethod.GET, FILES, "The files that are kept here", lambda of, r: of.listed(r.query_params)),
    (HttpMethod.GET, _FILE, "A file, without its content", lambda of, r: of.file(_name(r))),
    (HttpMethod.DELETE, _FILE, "Delete a file", lambda of, r: of.delete(_name(r))),
    (HttpMethod.GET, _FILE + "/content", "The content of a file", lambda of, r: of.content(_name(r))),
)


def file_routes(gateway: Gateway) -> list[HTTPRouteHandler]:
    """The handlers of all these routes."""
    return [_handler(gateway, *each) for each in _ROUTES]


def _handler(gateway: Gateway, method: HttpMethod, path: str, summary: str, work: Work) -> HTTPRouteHandler:
    name = f"{method.value} {path}"
    operation = re.sub(r"\W+", "_", name.replace(":str", ""))  # the handlers share the name of their function

    @route(path, http_method=method, status_code=200, summary=summary, name=name, operation_id=operation)
    async def answer(request: AnyRequest) -> Response[bytes]:
        incoming: Incoming = request.state.incoming
        found = await gateway.stored(incoming, lambda held, identity: work(FileEndpoints(held, identity), request))
        ids = {name.decode(): value.decode("latin-1") for name, value in with_request_id((), incoming.request_id)}
        if isinstance(found, bytes):
            return Response(found, media_type=UNKNOWN_TYPE, headers={**ids, **_AS_DATA})
        return Response(msgspec.json.encode(found), media_type=MediaType.JSON, headers=ids)

    return answer
