"""Which dialect a path speaks."""

from __future__ import annotations

from trimtab.dialects.chat import CHAT
from trimtab.dialects.dialect import Dialect
from trimtab.dialects.messages import MESSAGES
from trimtab.dialects.responses import RESPONSES

DIALECTS: tuple[Dialect, ...] = (CHAT, RESPONSES, MESSAGES)

_BY_PATH = {dialect.path: dialect for dialect in DIALECTS}


def managed(method: str, endpoint: str) -> Dialect | None:
    """The dialect of a request that is managed; None for any other path, which is passed on."""
    return _BY_PATH.get(endpoint) if method == "POST" else None


def spoken(endpoint: str) -> Dialect:
    """The dialect that errors are written in at a path: of the managed path that it is, or lies below; else chat's."""
    found = (dialect for dialect in DIALECTS if endpoint == dialect.path or endpoint.startswith(f"{dialect.path}/"))
    return next(found, CHAT)
