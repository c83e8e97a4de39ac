"""Every use of a private name of aiohttp, in one place.

aiohttp's public interface is enough for nearly all of the upstream call. Each exception is here, with its reason and
its measurement. pyproject.toml bounds aiohttp's version, because a private name may change with any minor release;
`tests/upstream/test_aiohttp_hooks.py` names what is missing when it does. To raise the bound: install the new version,
run tests/upstream and `python -m tests.bench.cold`.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from functools import lru_cache, partial
from typing import Any, NamedTuple, cast

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.helpers import TimerNoop
from aiohttp.http import RawResponseMessage
from aiohttp.http_exceptions import HttpProcessingError
from multidict import CIMultiDict
from yarl import URL

from trimtab.upstream.headers import Pairs

_KEEPALIVE_S = 60  # seconds of silence after which the kernel asks the peer, as the OpenAI SDK sets it
_JOINED = 64 << 10  # bytes of a body that is copied behind its headers: one write costs less than two then
_NO_TIMER = TimerNoop()
_MOST_URLS = 256  # whose connections are remembered: paths and queries come from clients


class Request(aiohttp.ClientRequest):
    """A request whose headers are sent exactly as given.

    aiohttp adds Accept, Accept-Encoding and User-Agent, which a proxy must not do, and copies the headers four times to
    find out which of them are missing.
    """

    _skip_auto_headers = CIMultiDict({"Content-Type": None})

    def update_headers(self, headers: Any) -> None:
        """Take the headers; add the Host when there is none."""
        self.headers = headers
        if "Host" not in headers:
            headers["Host"] = self.url.host_port_subcomponent

    def update_auto_headers(self, skip_auto_headers: Any) -> None:
        """Add nothing."""


class Response:
    """An answer to `post`: what is used of aiohttp's ClientResponse, under the same names.

    The connection goes back to the pool at the end of the body, unless the request is still on its way then.
    """

    __slots__ = ("_request", "connection", "content", "raw_headers", "status")

    def __init__(
        self, connection: Connection, request: Request, head: RawResponseMessage, content: aiohttp.StreamReader
    ) -> None:
        self.status: int = head.code
        self.raw_headers: tuple[tuple[bytes, bytes], ...] = head.raw_headers
        self.content, self._request = content, request
        self.connection: Connection | None = connection
        content.on_eof(self._ended)

    @property
    def request_info(self) -> aiohttp.RequestInfo:
        """The request, as errors name it."""
        return self._request.request_info

    def close(self) -> None:
        """Close the connection; who waits for more of the body gets an error."""
        if self.content.exception() is None:
            self.content.set_exception(aiohttp.ClientConnectionError("Connection closed"))
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def _ended(self) -> None:
        connection, self.connection = self.connection, None
        if connection is None:
            return
        transport = connection.transport
        if transport is None or transport.get_write_buffer_size():
            connection.close()
        else:
            connection.release()


class _Target(NamedTuple):
    """Where a URL leads to. `request` is what aiohttp finds or opens a connection for. It is not sent itself, so one
    serves all requests to a URL."""

    request: Request
    line: bytes
    host: bytes


def _target(url: str, loop: asyncio.AbstractEventLoop) -> _Target:
    to = URL(url, encoded=True)
    line, host = b"POST %b HTTP/1.1\r\n" % to.raw_path_qs.encode(), to.host_port_subcomponent or ""
    return _Target(Request("POST", to, loop=loop, headers=CIMultiDict[str]()), line, host.encode())


async def post(
    session: aiohttp.ClientSession, url: str, headers: Pairs, body: bytes, timeouts: aiohttp.ClientTimeout
) -> Response:
    """What `session.request("POST", ...)` comes to for a body that is there, without redirects, cookies, traces, a
    proxy and a total timeout.

    Only the head of the request is written here: connections, their pool, their timeouts and the parser of answers are
    aiohttp's. It makes a dozen objects and a task for a request, and reads and writes its headers four times: a
    sixth of the calls of functions that relaying 2 KB took. Host and Content-Length are added where they are missing.
    Raises as the session's method does, but for an OSError of a socket, which it would wrap.
    """
    connector: Any = session.connector
    target: _Target = connector.target(url)
    head = _head(target, headers, len(body))
    try:
        connection: Connection = await connector.connect(target.request, traces=[], timeout=timeouts)
    except TimeoutError as slow:
        raise aiohttp.ConnectionTimeoutError(f"no connection to {target.request.url.host} in time") from slow
    response = None
    try:
        protocol: Any = connection.protocol
        transport = protocol.transport
        if transport is None or transport.is_closing():
            raise aiohttp.ClientConnectionResetError("Cannot write to closing transport")
        protocol.set_response_params(
            timer=_NO_TIMER,
            read_until_eof=True,
            auto_decompress=False,
            read_timeout=timeouts.sock_read,
            read_bufsize=session._read_bufsize,
            max_line_size=session._max_line_size,
            max_field_size=session._max_field_size,
            max_headers=session._max_headers,
        )
        if len(body) < _JOINED:
            transport.write(head + body)
        else:
            transport.writelines((head, body))
        protocol.start_timeout_once_out()
        message, content = await protocol.read()
        while 100 <= message.code < 200 and message.code != 101:  # an interim answer: the real one follows
            message, content = await protocol.read()
        response = Response(connection, target.request, message, content)
        return response
    except HttpProcessingError as broken:
        raise aiohttp.ClientResponseError(
            target.request.request_info, (), status=broken.code, message=broken.message, headers=broken.headers
        ) from broken
    finally:
        if response is None:
            connection.close()


def _head(target: _Target, headers: Pairs, length: int) -> bytes:
    """The request line and the headers. Raises ValueError for a line break where none may be."""
    there = dict(headers)
    if b"host" not in there:
        headers = [(b"Host", target.host), *headers]
    if b"content-length" not in there:
        headers = [*headers, (b"Content-Length", b"%d" % length)]
    fields = b"".join([b"%b: %b\r\n" % pair for pair in headers])
    if fields.count(b"\n") != len(headers):
        raise ValueError("a line break in a header")
    return b"%b%b\r\n" % (target.line, fields)


class _Protocol(ResponseHandler):
    """A connection that reports broken framing to whoever reads the body, and resumes only what was paused.

    When the chunks of an answer are framed wrongly, aiohttp 3.14 closes the connection and stops its read timeout, but
    leaves the body without an exception: its reader would wait forever.

    aiohttp resumes its parser and its transport whenever a piece of a body is read: a tenth of what relaying a chunk
    calls, where nothing was paused. It makes a new timer for the read timeout at every piece that arrives, another
    tenth. Here a connection has one, which looks how long the silence really is when it goes off, and is set again for
    the rest.
    """

    _starts_later = False  # the read timeout: the request is still on its way
    _silent_since: float | None = None  # in the loop's time; None while nothing is waited for
    _alarm: asyncio.TimerHandle | None = None
    _alarm_s: float | None = None  # the read timeout that it was set for

    def start_timeout_once_out(self) -> None:
        """Start the read timeout when the request is written, as far as the socket's buffer shows."""
        if self.writing_paused:
            self._starts_later = True
        else:
            self.start_timeout()

    def start_timeout(self) -> None:
        if self._alarm_s != self._read_timeout:  # of another upstream at the same address
            self._end_alarm()
        self._reschedule_timeout()

    def _reschedule_timeout(self) -> None:
        self._silent_since = self._loop.time()
        if self._alarm is None and self._read_timeout:
            self._alarm_s = self._read_timeout
            self._alarm = self._loop.call_later(self._alarm_s, self._look)

    def _drop_timeout(self) -> None:
        self._silent_since = None

    def _look(self) -> None:
        self._alarm = None
        if self._silent_since is None or not self._read_timeout:
            return
        left = self._read_timeout - (self._loop.time() - self._silent_since)
        if left > 0:
            self._alarm = self._loop.call_later(left, self._look)
        else:
            self._on_read_timeout()

    def _end_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self._end_alarm()

    def resume_reading(self, *parser: Any, **named: Any) -> None:
        if self._reading_paused:
            super().resume_reading(*parser, **named)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._starts_later:
            self._starts_later = False
            self.start_timeout()

    def set_exception(self, exc: BaseException, *cause: Any) -> None:
        super().set_exception(exc, *cause)
        body = self._payload
        if isinstance(exc, HttpProcessingError) and body is not None and not body.is_eof() and body.exception() is None:
            body.set_exception(aiohttp.ClientPayloadError("the chunks of the answer are not framed as in HTTP/1.1"))


class Connector(aiohttp.TCPConnector):
    """Connections to upstreams, kept for 30 seconds after use.

    `tls` is a context, True for the system's certificate authorities, or False to verify nothing.

    Their number is not limited here: what is in flight is limited where requests come in. Keepalive probes of TCP are
    on, because a model may think for minutes without a byte, and middleboxes forget a connection that is silent.
    """

    def __init__(self, tls: ssl.SSLContext | bool = True) -> None:
        super().__init__(limit=0, keepalive_timeout=30.0, socket_factory=_socket, ssl=tls)
        self._factory = cast("partial[ResponseHandler]", partial(_Protocol, loop=self._loop))
        self.target = lru_cache(_MOST_URLS)(partial(_target, loop=self._loop))


def arrived(content: aiohttp.StreamReader) -> bytes:
    """What had arrived of a body before its connection broke.

    aiohttp's public readers raise before giving it out, and the last events of an upstream that omits its final chunk
    would be lost.
    """
    return content._read_nowait(-1)


def _socket(address: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, protocol, *_ = address
    opened = socket.socket(family, kind, protocol)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option in ("TCP_KEEPIDLE", "TCP_KEEPINTVL"):  # not on every platform
        if hasattr(socket, option):
            opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), _KEEPALIVE_S)
    return opened
