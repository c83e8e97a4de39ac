"""Compressed bodies: read piece by piece, never larger than allowed.

A few kilobytes can decompress into gigabytes, so every decoder has a bound on what it gives out and stops
there. An encoding that is not in the table gives no decoder: such a body is passed on as it is.
"""

from __future__ import annotations

import zlib
from typing import Protocol

import brotli

from trimtab.errors import BodyTooLarge, InvalidRequest


class Decoder(Protocol):
    """`feed` and `flush` give decoded bytes. They raise BodyTooLarge beyond the bound, InvalidRequest for
    bytes that are not in the encoding or end too early."""

    def feed(self, data: bytes) -> bytes: ...

    def flush(self) -> bytes: ...


def decoder(content_encoding: str | None, limit: int) -> Decoder | None:
    """A decoder for a Content-Encoding, None for one that is not known here (also for several in a row).

    `limit` is the largest decoded size in bytes.
    """
    name = (content_encoding or "identity").strip().lower()
    match name:
        case "identity" | "":
            return _Identity(limit)
        case "gzip" | "x-gzip":
            return _Gzip(limit)
        case "deflate":
            return _Deflate(limit)
        case "br":
            return _Brotli(limit)
        case _:
            return None


def decode_body(body: bytes, content_encoding: str | None, limit: int) -> bytes | None:
    """A whole body decoded, None when the encoding is not known here. Raises as a Decoder does."""
    reading = decoder(content_encoding, limit)
    return None if reading is None else reading.feed(body) + reading.flush()


class _Bounded:
    """Counts what was given out."""

    name = "identity"

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._left = limit

    def _given(self, data: bytes) -> bytes:
        self._left -= len(data)
        if self._left < 0:
            raise BodyTooLarge(f"The body is larger than {self._limit} bytes once decoded: send less at once.")
        return data

    def _broken(self) -> InvalidRequest:
        return InvalidRequest(f"The body is not valid {self.name}: its content-encoding and its bytes differ.")


class _Identity(_Bounded):
    def feed(self, data: bytes) -> bytes:
        return self._given(data)

    def flush(self) -> bytes:
        return b""


class _Gzip(_Bounded):
    """Members may follow one another (RFC 1952 §2.2)."""

    name = "gzip"
    _wbits = 16 + zlib.MAX_WBITS

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self._member = zlib.decompressobj(self._wbits)
        self._between = True

    def feed(self, data: bytes) -> bytes:
        out: list[bytes] = []
        while data:
            if self._member.eof:
                if not (data := data.lstrip(b"\0")):  # padding, as on tapes
                    break
                self._member = zlib.decompressobj(self._wbits)
            out.append(self._given(self._decompress(data)))
            self._between = self._member.eof
            data = self._member.unused_data
        return b"".join(out)

    def flush(self) -> bytes:
        if not self._member.eof and not self._between:
            raise self._broken()
        return b""

    def _decompress(self, data: bytes) -> bytes:
        try:
            return self._member.decompress(data, self._left + 1)
        except zlib.error:
            raise self._broken() from None


class _Deflate(_Gzip):
    """zlib's format as RFC 9110 §8.4.1.2 has it, or raw deflate as some servers send it."""

    name = "deflate"
    _wbits = zlib.MAX_WBITS

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self._head = b""
        self._begun = False

    def feed(self, data: bytes) -> bytes:
        if self._begun:
            return super().feed(data)
        self._head += data
        if len(self._head) < 2:
            return b""
        self._begun = True
        if not _zlib_header(self._head):
            self._member = zlib.decompressobj(-zlib.MAX_WBITS)
        return super().feed(self._head)

    def flush(self) -> bytes:
        if self._head and not self._begun:
            raise self._broken()
        return super().flush()


class _Brotli(_Bounded):
    name = "br"

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self._stream = brotli.Decompressor()
        self._begun = False

    def feed(self, data: bytes) -> bytes:
        if not data:
            return b""
        self._begun = True
        out = [self._process(data)]
        while out[-1] and not self._stream.is_finished():  # it stops at its bound with more in hand
            out.append(self._process(b""))
        return b"".join(out)

    def flush(self) -> bytes:
        if self._begun and not self._stream.is_finished():
            raise self._broken()
        return b""

    def _process(self, data: bytes) -> bytes:
        try:
            return self._given(self._stream.process(data, output_buffer_limit=self._left + 1))
        except brotli.error:
            raise self._broken() from None


def _zlib_header(data: bytes) -> bool:
    """RFC 1950 §2.2: method 8, and the two bytes divisible by 31."""
    return data[0] & 0x0F == 8 and (data[0] << 8 | data[1]) % 31 == 0
