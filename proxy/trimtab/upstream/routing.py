"""Where a request goes: which upstream serves its model, and which URL of that upstream.

The upstream is the first whose `models` globs match, in the order of the configuration. The URL follows the OpenAI
SDK's rule: what follows `/v1` in the client's path is appended to `base_url`, however that ends. So
`/v1/chat/completions` becomes

    https://api.openai.com/v1           https://api.openai.com/v1/chat/completions
    https://ark.example/api/v3          https://ark.example/api/v3/chat/completions
    https://api.perplexity.ai           https://api.perplexity.ai/chat/completions

A path outside `/v1` (llama.cpp's `/props`, Ollama's `/api/show`) replaces the `/v1` at the end of `base_url`, one of an
Azure deployment (`/openai/deployments/NAME/…`) the `/openai` or `/openai/v1`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import lru_cache
from urllib.parse import unquote, urlsplit

from trimtab.errors import InvalidRequest, UnknownModel
from trimtab.upstream.settings import UpstreamSettings

_SHOWN_NAME = 100  # characters of a model name quoted back; anything longer is not a name

# A dot segment could leave the path of base_url with the configured key. Servers find one in many spellings: escaped,
# escaped twice (%252e), in overlong UTF-8 (%c0%ae), as a full-width dot, before parameters (`..;x`, Tomcat and Spring)
# and before a NUL or a blank, where some cut a name off; with control characters in it, which some leave out; as
# %u002e (IIS); and before an escaped `?` or `#`.
_DOTS = re.compile(r"(?:^|[/\\])\s*\.{1,2}[\s\0]*(?:[;?#/\\]|$|\0)")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]+")
_UNICODE_ESCAPE = re.compile(r"%u00([0-9a-f]{2})")
_OVERLONG = (("%c0%ae", "."), ("%c0%af", "/"), ("%c1%9c", "\\"))
_MOST_ESCAPES = 4  # layers of escapes that are removed; a path with more of them is refused
_UNSAFE = re.compile(r"[\x00-\x20\x7f\\#?]|[^\x00-\x7f]")


def route(model: str | None, upstreams: Sequence[UpstreamSettings]) -> UpstreamSettings:
    """The upstream for `model`; the first one for a request that names no model.

    Raises UnknownModel, with the nearest configured names and what to do.
    """
    if model is None and upstreams:
        return upstreams[0]
    for upstream in upstreams:
        for glob in upstream.models:
            if _serves(glob, model or ""):
                return upstream
    raise UnknownModel(_unknown(model or "", upstreams), param="model")


@lru_cache(maxsize=256)
def url_of(base_url: str, path: str, query: bytes = b"") -> str:
    """The URL to call. `path` is the client's, escaped as it came; `query` is without its `?`.

    Raises InvalidRequest for a path with dot segments, and for characters that must be escaped.
    """
    if _UNSAFE.search(path) or has_dot_segment(path):
        raise InvalidRequest(
            "Dot segments or unescaped characters in the path. Use the plain API path, such as /v1/chat/completions."
        )
    base = base_url.rstrip("/")
    if path == "/v1" or path.startswith("/v1/"):
        url = base + path[3:]
    else:
        root = base.removesuffix("/v1")
        url = (root.removesuffix("/openai") if path.startswith("/openai/") else root) + path
    return f"{url}?{_query(query)}" if query else url


def has_dot_segment(path: str) -> bool:
    """True when any server might find a dot segment in an escaped `path`, or when it is escaped more than
    `_MOST_ESCAPES` times."""
    for _ in range(_MOST_ESCAPES):
        normal = unicodedata.normalize("NFKC", path)
        if _DOTS.search(normal) or _DOTS.search(_CONTROLS.sub("", normal)):
            return True
        plain = _UNICODE_ESCAPE.sub("%\\1", path.lower())
        for overlong, sign in _OVERLONG:
            plain = plain.replace(overlong, sign)
        plain = unquote(plain)
        if plain == path.lower():
            return False
        path = plain
    return True


@lru_cache(maxsize=64)
def origin(base_url: str) -> tuple[str, str, int]:
    """Scheme, host and port. Two upstreams with the same origin are one server, which may see the same key."""
    parts = urlsplit(base_url)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or (443 if parts.scheme == "https" else 80)


def _serves(glob: str, model: str) -> bool:
    return glob == "*" or glob == model or fnmatchcase(model, glob)


def _unknown(model: str, upstreams: Sequence[UpstreamSettings]) -> str:
    globs = [glob for upstream in upstreams for glob in upstream.models]
    near = get_close_matches(model[:_SHOWN_NAME], globs, n=3, cutoff=0.5) or globs[:3]
    hint = f" Nearest: {', '.join(near)}." if near else ""
    return (
        f"No upstream serves the model {model[:_SHOWN_NAME]!r}.{hint}"
        " Use one of the configured models, or add this one to `models` of an [[upstreams]] table."
    )


def _query(query: bytes) -> str:
    text = query.decode("latin-1")
    if any(not "!" <= c <= "~" or c == "#" for c in text):
        raise InvalidRequest("Unescaped characters in the query. Percent-encode them.")
    return text
