"""Requests as no client should make them, and what becomes of each."""

from __future__ import annotations

import gzip
from dataclasses import dataclass

from tests.support.raw import BODY, CLOSE_AFTER, request
from tests.support.scripted import chunk

CHUNKED = CLOSE_AFTER + b"transfer-encoding: chunked\r\n"
BOTH = b"transfer-encoding: chunked\r\n"
CHAT = ("/v1/chat/completions",)
SMUGGLED = b"0\r\n\r\nGET /v1/smuggled HTTP/1.1\r\nhost: x\r\n\r\n"


@dataclass(frozen=True)
class Row:
    """A request, the status of its answer, and what the upstream is asked."""

    data: bytes
    status: int
    asked: tuple[str, ...] = ()


def get(path: bytes, extra: bytes = b"", method: bytes = b"GET") -> bytes:
    return request(path, b"", CLOSE_AFTER + extra, method)


ROWS = {
    # where it goes
    "absolute-form": Row(request(b"http://evil.example/v1/chat/completions"), 200, CHAT),
    "absolute-form, another scheme": Row(get(b"gopher://evil.example/v1/models"), 200, ("/v1/models",)),
    "two slashes before v1": Row(request(b"//v1/chat/completions"), 200, ("/v1/chat/completions",)),
    "two slashes within": Row(request(b"/v1//chat/completions"), 200, ("/v1//chat/completions",)),
    "a slash at the end": Row(request(b"/v1/chat/completions/"), 200, ("/v1/chat/completions/",)),
    "an escaped slash": Row(request(b"/v1/chat%2Fcompletions"), 200, ("/v1/chat%2Fcompletions",)),
    "v1 escaped": Row(request(b"/%76%31/chat/completions"), 404),
    "dots": Row(get(b"/v1/../metrics"), 400),
    "escaped dots": Row(get(b"/v1/%2e%2e/metrics"), 400),
    "dots between escaped slashes": Row(get(b"/v1/x%2f..%2f..%2fadmin"), 400),
    "v1 and an escaped slash": Row(get(b"/v1%2f..%2fadmin"), 404),
    "a fragment": Row(get(b"/v1/models#x"), 200, ("/v1/models",)),
    "letters that are not ASCII": Row(get("/v1/modèle".encode()), 400),
    "quotes in the query": Row(get(b'/v1/models?a="<>'), 400),
    "admin page as API": Row(get(b"/v1/metrics"), 200, ("/v1/metrics",)),
    "no path": Row(get(b"/"), 404),
    "asterisk": Row(get(b"*", method=b"OPTIONS"), 404),
    "CONNECT": Row(get(b"evil.example:443", method=b"CONNECT"), 404),
    "upgrade": Row(request(extra=b"connection: upgrade, close\r\nupgrade: websocket\r\n"), 426),
    # methods
    "OPTIONS": Row(get(b"/v1/chat/completions", method=b"OPTIONS"), 200, CHAT),
    "PUT": Row(request(method=b"PUT"), 200, CHAT),
    "a method of their own": Row(request(method=b"BREW"), 200, CHAT),
    "POST to a page": Row(request(b"/metrics"), 405),
    "GET of the plan": Row(get(b"/v1/context/plan"), 405),
    # framing
    "HTTP/1.0": Row(request(version=b"HTTP/1.0", extra=b""), 200, CHAT),
    "HTTP/9.9": Row(request(version=b"HTTP/9.9"), 400),
    "HTTP/2 in the clear": Row(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 0),
    "TLS to a plain port": Row(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 40, 400),
    "expect": Row(request(extra=CLOSE_AFTER + b"expect: 100-continue\r\n"), 200, CHAT),
    "two lengths": Row(request(extra=CLOSE_AFTER + b"content-length: 5\r\n"), 400),
    "a length that is none": Row(request(extra=b"content-length: -1\r\n", length=False), 400),
    "length and chunks": Row(request(b"/v1/embeddings", SMUGGLED, BOTH), 200, ("/v1/embeddings",)),
    "chunks twice over": Row(request(extra=CHUNKED + b"transfer-encoding: identity\r\n", length=False), 400),
    "an unknown transfer encoding": Row(request(extra=b"transfer-encoding: xchunked\r\n", length=False), 400),
    "a chunk size that is none": Row(request(body=b"zz\r\nhello\r\n0\r\n\r\n", extra=CHUNKED, length=False), 400),
    "a chunk longer than said": Row(request(body=b"5\r\nhellozz\r\n0\r\n\r\n", extra=CHUNKED, length=False), 400),
    "the same, passed through": Row(
        request(b"/v1/embeddings", b"5\r\nhellozz\r\n0\r\n\r\n", CHUNKED, length=False), 400
    ),
    "a chunk size beyond 64 bits": Row(request(body=b"f" * 17 + b"\r\n", extra=CHUNKED, length=False), 400),
    "trailers": Row(
        request(body=chunk(BODY) + b"0\r\nauthorization: Bearer x\r\n\r\n", extra=CHUNKED, length=False),
        200,
        CHAT,
    ),
    "a folded header": Row(get(b"/v1/models", b"x-a: b\r\n c\r\n"), 400),
    "a space before the colon": Row(get(b"/v1/models", b"x-a : b\r\n"), 400),
    "a bare CR in a header": Row(get(b"/v1/models", b"x-a: b\rc\r\n"), 400),
    "NUL in a header": Row(get(b"/v1/models", b"x-a: b\0c\r\n"), 400),
    "too many headers": Row(get(b"/v1/models", b"".join(b"x-%d: y\r\n" % i for i in range(500))), 431),
    "no host": Row(b"GET /v1/models HTTP/1.1\r\nconnection: close\r\n\r\n", 200, ("/v1/models",)),
    "two hosts": Row(get(b"/v1/models", b"host: evil.example\r\n"), 200, ("/v1/models",)),
    "a body with GET": Row(request(b"/v1/models", method=b"GET"), 200, ("/v1/models",)),
    "two at once": Row(
        request(extra=b"") + get(b"/v1/models"), 200, ("/v1/chat/completions", "/v1/models")
    ),
    # bodies
    "an unknown content encoding": Row(request(extra=CLOSE_AFTER + b"content-encoding: compress\r\n"), 415),
    "several content encodings": Row(request(extra=CLOSE_AFTER + b"content-encoding: gzip, br\r\n"), 415),
    "gzip that is none": Row(request(extra=CLOSE_AFTER + b"content-encoding: gzip\r\n"), 400),
    "gzip cut short": Row(
        request(body=gzip.compress(BODY)[:-9], extra=CLOSE_AFTER + b"content-encoding: gzip\r\n"), 400
    ),
    "a compression bomb": Row(
        request(body=gzip.compress(b" " * (3 << 20)), extra=CLOSE_AFTER + b"content-encoding: gzip\r\n"), 413
    ),
    "a length beyond the bound": Row(request(extra=b"content-length: 99999999999\r\n", length=False), 413),
    "a length beyond 64 bits": Row(request(extra=b"content-length: " + b"9" * 30 + b"\r\n", length=False), 400),
}  # fmt: skip
