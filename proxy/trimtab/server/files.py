"""The routes of uploaded files, `/v1/files`, with `[conversations]`: the list, a file, its content. Uploads come
another way (`exchange.uploading`), since only their form says whether they are kept here. Files of the upstream are
passed on.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Final

from litestar.enums import HttpMethod
from litestar.handlers import HTTPRouteHandler

from trimtab.conversations.file_objects import FileEndpoints, Object
from trimtab.exchange.gateway import Gateway
from trimtab.exchange.uploading import FILES
from trimtab.server.conversations import AnyRequest, named, stored_handler

Work = Callable[[FileEndpoints, AnyRequest], Awaitable[Object | bytes]]

_FILE: Final = FILES + "/{name:str}"
_GET = re.compile(FILES + r"(?:/[^/]+(?:/content)?)?")
_DELETE = re.compile(FILES + r"/[^/]+")


def serves_file(method: str, endpoint: str) -> bool:
    """True for a request that one of these routes answers, if the file is kept here."""
    pattern = {"GET": _GET, "DELETE": _DELETE}.get(method)
    return pattern is not None and pattern.fullmatch(endpoint) is not None


_ROUTES: Final[tuple[tuple[HttpMethod, str, str, Work], ...]] = (
    (HttpMethod.GET, FILES, "The files that are kept here", lambda of, r: of.listed(r.query_params)),
    (HttpMethod.GET, _FILE, "A file, without its content", lambda of, r: of.file(named(r))),
    (HttpMethod.DELETE, _FILE, "Delete a file", lambda of, r: of.delete(named(r))),
    (HttpMethod.GET, _FILE + "/content", "The content of a file", lambda of, r: of.content(named(r))),
)


def file_routes(gateway: Gateway) -> list[HTTPRouteHandler]:
    """The handlers of all these routes."""
    return [stored_handler(gateway, FileEndpoints, *each) for each in _ROUTES]
