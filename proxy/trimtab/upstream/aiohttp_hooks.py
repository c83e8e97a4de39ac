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
from functools import partial
from typing import Any, cast

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.helpers import TimerNoop
from aiohttp.http_exceptions import HttpProcessingError
from multidict import CIMultiDict
from yarl import URL

_KEEPALIVE_S = 60  # seconds of silence after which the kernel asks the peer, as the OpenAI SDK sets it


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


async def post(
    session: aiohttp.ClientSession, url: URL, headers: CIMultiDict[str], body: Any, timeouts: aiohttp.ClientTimeout
) -> aiohttp.ClientResponse:
    """What `session.request("POST", ...)` comes to without redirects, cookies, traces, a proxy and a total timeout.

    The session's own method prepares for all of these and copies the headers one by one, which takes a tenth of what a
    short request costs. It also sends methods again that leave nothing behind, which POST is not. Raises as it does,
    but for an OSError of a socket, which it would wrap.
    """
    connector, timer = session.connector, TimerNoop()
    assert connector is not None
    loop = asyncio.get_running_loop()
    # aiohttp adds to the headers, and another try needs them as they were.
    request = Request("POST", url, headers=headers.copy(), data=body, loop=loop, timer=timer, session=session)
    try:
        connection = await connector.connect(request, traces=[], timeout=timeouts)
    except TimeoutError as slow:
        raise aiohttp.ConnectionTimeoutError(f"no connection to {url.host} in time") from slow
    answer, begun = None, False
    try:
        assert connection.protocol is not None
        connection.protocol.set_response_params(
            timer=timer,
            read_until_eof=True,
            auto_decompress=session.auto_decompress,
            read_timeout=timeouts.sock_read,
            read_bufsize=session._read_bufsize,
            max_line_size=session._max_line_size,
            max_field_size=session._max_field_size,
            max_headers=session._max_headers,
        )
        answer = await request.send(connection)
        await answer.start(connection)
        begun = True
        return answer
    finally:
        if not begun:
            if answer is not None:
                answer.close()  # and with it what is still sent
            connection.close()


class _Protocol(ResponseHandler):
    """A connection that reports broken framing to whoever reads the body.

    When the chunks of an answer are framed wrongly, aiohttp 3.14 closes the connection and stops its read timeout, but
    leaves the body without an exception: its reader would wait forever.
    """

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


def stop_read_timer(response: aiohttp.ClientResponse) -> bool:
    """Switch off aiohttp's own read timeout for the rest of this answer; False when its body has all arrived.

    aiohttp makes a new timer at every chunk, a tenth of what relaying one costs. The caller keeps the time instead. The
    next request on the same connection sets aiohttp's again.
    """
    connection = response.connection
    if connection is None or connection.protocol is None:
        return False
    connection.protocol.read_timeout = None
    return True


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
