"""Connections to upstreams, with two things put right that aiohttp leaves to chance.

When the framing of a chunked answer is broken, aiohttp (3.14) closes the connection, stops its read timeout and tells
nobody who reads the body: they would wait for ever. And a silent peer is asked after every minute, with the OpenAI
SDK's own figures: models think for minutes without a byte, and middleboxes forget a connection that is silent for
longer.
"""

from __future__ import annotations

import socket
from functools import partial
from typing import Any, cast

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import HttpProcessingError


class _Protocol(ResponseHandler):
    def set_exception(self, exc: BaseException, *cause: Any) -> None:
        super().set_exception(exc, *cause)
        body = self._payload
        if isinstance(exc, HttpProcessingError) and body is not None and not body.is_eof() and body.exception() is None:
            body.set_exception(aiohttp.ClientPayloadError("the answer is not framed as HTTP/1.1 has it"))


class Connections(aiohttp.TCPConnector):
    """Not limited in number: what is in flight is limited where requests come in."""

    def __init__(self) -> None:
        super().__init__(limit=0, keepalive_timeout=30.0, socket_factory=_socket)
        self._factory = cast("partial[ResponseHandler]", partial(_Protocol, loop=self._loop))


def _socket(address: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, protocol, *_ = address
    opened = socket.socket(family, kind, protocol)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option in ("TCP_KEEPIDLE", "TCP_KEEPINTVL"):  # not on every platform
        if hasattr(socket, option):
            opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), 60)
    return opened
