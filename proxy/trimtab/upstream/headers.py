"""Headers, one hop at a time (RFC 9110 §7.6.1).

What describes a connection stays on its connection; everything else is forwarded, repeated fields and their order
included. Framing (`content-length`, `transfer-encoding`) is set again for each hop, nothing named `x-trimtab-*` is sent
upstream, and a configured key replaces every key the client sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from operator import itemgetter
from urllib.parse import urlsplit

from trimtab.errors import InvalidRequest
from trimtab.upstream.settings import UpstreamSettings
from trimtab.wire.media import parse_content_length

Pairs = list[tuple[bytes, bytes]]

# RFC 9110 §7.6.1, and the proxy-* fields, which are for this proxy.
HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-authentication-info",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"http2-settings",
    }
)
# `expect` was answered when the body was read; `host` and the framing are set again.
_NOT_FORWARDED = HOP_BY_HOP | {b"host", b"expect", b"content-length"}
_NAMES_CREDENTIAL = re.compile("auth|key|token|secret|cookie", re.IGNORECASE)
_CREDENTIALS = frozenset({b"authorization", b"api-key", b"x-api-key"})
# What describes the bytes of a body, and is wrong once the body was rewritten.
_OF_THE_BODY = frozenset(
    {
        b"content-length",
        b"content-encoding",
        b"content-md5",
        b"digest",
        b"content-digest",
        b"repr-digest",
        b"etag",
    }
)
_LENGTH = frozenset({b"content-length"})
_name, _value = itemgetter(0), itemgetter(1)
_OURS = b"x-trimtab-"
_FORBIDDEN = b"\r\n\0"
# Characters that are invalid in a field value. In an answer they become spaces (RFC 9110 §5.5): our server would refuse
# to send them.
_CONTROLS = bytes([*range(0x09), *range(0x0A, 0x20), 0x7F])
_TO_SPACES = bytes.maketrans(_CONTROLS, b" " * len(_CONTROLS))
_NOT_A_NAME = re.compile(rb"[^!#$%&'*+.^_`|~0-9a-z-]")


def to_upstream(
    headers: Iterable[tuple[bytes, bytes]],
    *,
    upstream: UpstreamSettings,
    content_length: int | None,
    body_changed: bool = False,
    identity: bool = False,
    keep_credentials: bool = True,
) -> Pairs:
    """The headers of a request to `upstream`, from the client's; all names are in lower case.

    `content_length` is the body's size in bytes, None for a streamed one, which keeps the length the client stated, if
    any. `body_changed` drops what described the old bytes. `identity` asks for an uncompressed answer.
    `keep_credentials=False` is for a proxy that checked the client's key itself: that key must not reach the upstream.

    Raises InvalidRequest for a header that would break the framing.
    """
    pairs = list(headers)
    if _has_any(_FORBIDDEN, pairs):
        raise InvalidRequest("Line break or NUL character in a header value. Remove it.")
    names, credentials_go = tuple(map(_name, pairs)), upstream.api_key is not None or not keep_credentials
    dropped = _dropped(names, tuple(upstream.headers), body_changed, identity, credentials_go)
    if b"connection" in names:
        dropped |= _named_by_connection(pairs)
    kept = [pair for pair in pairs if pair[0] not in dropped]
    size = _length(pairs, body_changed) if content_length is None else b"%d" % content_length
    if size is not None:
        kept.append((b"content-length", size))
    if identity:
        kept.append((b"accept-encoding", b"identity"))
    own = _configured(upstream) if upstream.headers or upstream.api_key is not None else ()
    return [(b"host", host(upstream.base_url)), *kept, *own]


def to_client(
    headers: Iterable[tuple[bytes, bytes]], *, body_changed: bool = False, length_known: bool = True
) -> Pairs:
    """The headers of an answer to the client, from the upstream's: end-to-end headers, repeated ones (`set-cookie`)
    included. All names are in lower case.

    With `body_changed` (decoded, or edited) the caller adds `content-length` and `content-encoding` itself. Without
    `length_known` the length is left out, because the body that is sent may have another one.
    """
    pairs = list(headers)
    if _has_any(_CONTROLS, pairs):
        pairs = [(name, value.translate(_TO_SPACES)) for name, value in pairs]
    fields, dropped = dict(pairs), HOP_BY_HOP
    if b"connection" in fields:
        dropped |= _named_by_connection(pairs)
    if body_changed:
        dropped |= _OF_THE_BODY
    elif not length_known or b"transfer-encoding" in fields:  # which overrides it (RFC 9112 §6.3)
        dropped |= _LENGTH
    return [pair for pair in pairs if pair[0] not in dropped]


@lru_cache(maxsize=64)
def host(base_url: str) -> bytes:
    """The Host header for a base URL: the host, and the port unless it is the scheme's default."""
    parts = urlsplit(base_url)
    name = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    default = 443 if parts.scheme == "https" else 80
    shown = name if parts.port in (None, default) else f"{name}:{parts.port}"
    return shown.encode("idna" if not shown.isascii() else "ascii")


@lru_cache(maxsize=64)
def _dropped(
    names: tuple[bytes, ...], configured: tuple[str, ...], body_changed: bool, identity: bool, credentials_go: bool
) -> frozenset[bytes]:
    """Which of these names are not forwarded. A client sends the same names with every request, so this is remembered.
    Raises InvalidRequest for what is no name."""
    if b"" in names or _NOT_A_NAME.search(b"".join(names)):
        raise InvalidRequest("Invalid character in a header name. Use letters, digits and hyphens.")
    dropped = _NOT_FORWARDED | {name for name in names if name.startswith(_OURS)}
    dropped |= {name.lower().encode() for name in configured}
    if credentials_go:
        dropped |= _CREDENTIALS
    if body_changed:
        dropped |= _OF_THE_BODY
    if identity:
        dropped |= {b"accept-encoding"}
    return dropped


def _has_any(signs: bytes, pairs: Pairs) -> bool:
    """Whether one of these bytes is in a value."""
    values = b" ".join(map(_value, pairs))
    return len(values.translate(None, signs)) < len(values)


def _named_by_connection(pairs: Pairs) -> frozenset[bytes]:
    lists = [value for name, value in pairs if name == b"connection"]
    return frozenset([token.strip().lower() for value in lists for token in value.split(b",")])


def _length(pairs: Pairs, body_changed: bool) -> bytes | None:
    """The length the client stated for a streamed body; None when the body was chunked or is changed."""
    if body_changed or any(name == b"transfer-encoding" for name, _ in pairs):
        return None
    stated = {value for name, value in pairs if name == b"content-length"}
    if len(stated) > 1 or any(parse_content_length(value) is None for value in stated):
        raise InvalidRequest("Invalid or duplicate Content-Length header.")
    return stated.pop() if stated else None


def has_credential(upstream: UpstreamSettings) -> bool:
    """Whether all requests to an upstream carry a credential that is configured for it: a key, or a header that is
    named like one."""
    return upstream.api_key is not None or any(_NAMES_CREDENTIAL.search(name) for name in upstream.headers)


def _configured(upstream: UpstreamSettings) -> Pairs:
    extra = [(name.lower().encode(), value.encode()) for name, value in upstream.headers.items()]
    if upstream.api_key is None or "authorization" in {name.lower() for name in upstream.headers}:
        return extra
    key = upstream.api_key.encode()
    return [*extra, (b"x-api-key", key) if upstream.auth == "x-api-key" else (b"authorization", b"Bearer " + key)]
