"""Which dialect a path speaks, and which a body is written in where no path says so."""

from __future__ import annotations

import re

import msgspec
from msgspec import Raw

from trimtab.dialects.chat import CHAT
from trimtab.dialects.dialect import Dialect
from trimtab.dialects.messages import MESSAGES
from trimtab.dialects.responses import RESPONSES

DIALECTS: tuple[Dialect, ...] = (CHAT, RESPONSES, MESSAGES)

# What only the Messages API has: blocks of calls and results, and a tool's schema. In a text the quotes are escaped.
_ONLY_MESSAGES = re.compile(rb'"type"\s*:\s*"tool_(?:use|result)"|"input_schema"\s*:')
_OF_MESSAGES = frozenset({"system", "stop_sequences", "anthropic_version"})  # the last at Bedrock and Vertex
_BY_PATH = {dialect.path: dialect for dialect in DIALECTS}


def managed(method: str, endpoint: str) -> Dialect | None:
    """The dialect of a request that is managed; None for any other path, which is passed on."""
    return _BY_PATH.get(endpoint) if method == "POST" else None


def spoken(endpoint: str) -> Dialect:
    """The dialect that errors are written in at a path: of the managed path that it is, or lies below; else chat's."""
    return _BY_PATH.get(endpoint) or beside_managed(endpoint) or CHAT


def beside_managed(endpoint: str) -> Dialect | None:
    """The dialect of a path below a managed one, such as one that counts tokens; None for any other."""
    return next((dialect for dialect in DIALECTS if endpoint.startswith(f"{dialect.path}/")), None)


def recognized(body: bytes, *, versioned: bool = False) -> Dialect:
    """The dialect that a body shows: `input` in place of `messages`; or `system` beside them, and what only the
    Messages API has. Chat's for any other, and for what cannot be read. `versioned`: it came with `anthropic-version`,
    the header of every request of Messages, whose texts alone look like a chat's."""
    try:
        fields = msgspec.json.decode(body, type=dict[str, Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return CHAT
    if "messages" not in fields:
        return RESPONSES if "input" in fields else CHAT
    return MESSAGES if versioned or not _OF_MESSAGES.isdisjoint(fields) or _ONLY_MESSAGES.search(body) else CHAT
