"""Where a request goes: the base URL of an upstream joined with the client's path.

The rule is the OpenAI SDK's own: what follows `/v1` in the client's path is appended to `base_url`, whatever
that ends in. So `/v1/chat/completions` becomes

    https://api.openai.com/v1           https://api.openai.com/v1/chat/completions
    https://ark.example/api/v3          https://ark.example/api/v3/chat/completions
    https://api.perplexity.ai           https://api.perplexity.ai/chat/completions

A path outside `/v1` (llama.cpp's `/props`, Ollama's `/api/show`) stands where the base's `/v1` stood.
"""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import urlsplit

from trimtab.errors import InvalidRequest

# A dot segment, plain or escaped, as its slashes may be, could climb out of base_url's path with the configured key
# in hand.
_DOT_SEGMENT = re.compile(r"(?:/|%2f|%5c)(?:\.|%2e){1,2}(?:/|$|\\|%2f|%5c)", re.IGNORECASE)
_UNSAFE = re.compile(r"[\x00-\x20\x7f\\#?]|[^\x00-\x7f]")


@lru_cache(maxsize=256)
def target(base_url: str, path: str, query: bytes = b"") -> str:
    """The URL to call. `path` is the client's, escaped as it came; `query` without its `?`.

    Raises InvalidRequest for a path with dot segments or with characters that must be escaped.
    """
    if _UNSAFE.search(path) or _DOT_SEGMENT.search(path):
        raise InvalidRequest("The path holds dot segments or unescaped characters: send the plain API path.")
    base = base_url.rstrip("/")
    managed = path == "/v1" or path.startswith("/v1/")
    url = base + path[3:] if managed else base.removesuffix("/v1") + path
    return f"{url}?{_query(query)}" if query else url


@lru_cache(maxsize=64)
def origin(base_url: str) -> tuple[str, str, int]:
    """Scheme, host and port: what makes two upstreams one server, to which the same key may be shown."""
    parts = urlsplit(base_url)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or (443 if parts.scheme == "https" else 80)


def _query(query: bytes) -> str:
    text = query.decode("latin-1")
    if any(not "!" <= c <= "~" or c == "#" for c in text):
        raise InvalidRequest("The query holds unescaped characters: percent-encode them.")
    return text
