"""Compressed bodies (gzip, deflate, br), decoded piece by piece and never beyond a bound.

A few kilobytes can decompress into gigabytes, so every decoder has a bound on its output and stops there. An encoding
that is unknown here has no decoder: such a body is relayed as it is.
"""

from __future__ import annotations

import zlib
from typing import Protocol

import brotli

from trimtab.errors import BodyTooLarge, InvalidRequest, RequestError


class Decoder(Protocol):
    """Decodes one body."""

    def feed(self, data: bytes) -> bytes:
        """The decoded bytes of `data`. Raises BodyTooLarge beyond the bound, InvalidRequest for broken input."""
        ...

    def flush(self) -> bytes:
        """The decoded bytes that are left at the end. Raises InvalidRequest when the input ended too early."""
        ...


def decoder(content_encoding: str | None, limit: int) -> Decoder | None:
    """A decoder for a Content-Encoding; None for an unknown one, and for several in a row.

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
    """A whole body, decoded; None when the encoding is unknown. `limit` is the largest decoded size in bytes.

    Raises BodyTooLarge beyond it, InvalidRequest for broken input.
    """
    found = decoder(content_encoding, limit)
    return None if found is None else found.feed(body) + found.flush()


def decode_or_empty(body: bytes, content_encoding: str, limit: int) -> bytes:
    """A whole body, decoded, at most `limit` bytes; empty when it cannot be decoded. For reading along: never raises.

    A body without an encoding is returned as it is, of any size.
    """
    if content_encoding in ("", "identity"):
        return body
    try:
        return decode_body(body, content_encoding, limit) or b""
    except RequestError:
        return b""


class _Bounded:
    """Counts the bytes given out."""

    name = "identity"

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._left = limit

    def _counted(self, data: bytes) -> bytes:
        self._left -= len(data)
        if self._left < 0:
            raise BodyTooLarge(f"The decoded body is larger than {self._limit} bytes. Send a smaller body.")
        return data

    def _invalid(self) -> InvalidRequest:
        return InvalidRequest(f"The body is not valid {self.name}. Correct its bytes or its Content-Encoding header.")


class _Identity(_Bounded):
    def feed(self, data: bytes) -> bytes:
        return self._counted(data)

    def flush(self) -> bytes:
        return b""


class _Gzip(_Bounded):
    """One member, or several in a row (RFC 1952 §2.2)."""

    name = "gzip"
    _wbits = 16 + zlib.MAX_WBITS

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self._member = zlib.decompressobj(self._wbits)
        self._member_ended = True

    def feed(self, data: bytes) -> bytes:
        out: list[bytes] = []
        while data:
            if self._member.eof:
                if not (data := data.lstrip(b"\0")):  # padding after the last member
                    break
                self._member = zlib.decompressobj(self._wbits)
            out.append(self._counted(self._decompress(data)))
            self._member_ended = self._member.eof
            data = self._member.unused_data
        return b"".join(out)

    def flush(self) -> bytes:
        if not self._member.eof and not self._member_ended:
            raise self._invalid()
        return b""

    def _decompress(self, data: bytes) -> bytes:
        try:
            return self._member.decompress(data, self._left + 1)
        except zlib.error:
            raise self._invalid() from None


class _Deflate(_Gzip):
    """zlib's format (RFC 9110 §8.4.1.2), or raw deflate as some servers send it."""

    name = "deflate"
    _wbits = zlib.MAX_WBITS

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self._head = b""
        self._started = False

    def feed(self, data: bytes) -> bytes:
        if self._started:
            return super().feed(data)
        self._head += data
        if len(self._head) < 2:
            return b""
        self._started = True
        if not _zlib_header(self._head):
            self._member = zlib.decompressobj(-zlib.MAX_WBITS)
        return super().feed(self._head)

    def flush(self) -> bytes:
        if self._head and not self._started:
            raise self._invalid()
        return super().flush()


class _Brotli(_Bounded):
    name = "br"

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self._stream = brotli.Decompressor()
        self._started = False

    def feed(self, data: bytes) -> bytes:
        if not data:
            return b""
        self._started = True
        out = [self._process(data)]
        while out[-1] and not self._stream.is_finished():  # it stopped at its bound and has more
            out.append(self._process(b""))
        return b"".join(out)

    def flush(self) -> bytes:
        if self._started and not self._stream.is_finished():
            raise self._invalid()
        return b""

    def _process(self, data: bytes) -> bytes:
        try:
            return self._counted(self._stream.process(data, output_buffer_limit=self._left + 1))
        except brotli.error:
            raise self._invalid() from None


def _zlib_header(data: bytes) -> bool:
    """True for the first two bytes of zlib's format (RFC 1950 §2.2): method 8, and both divisible by 31."""
    return data[0] & 0x0F == 8 and (data[0] << 8 | data[1]) % 31 == 0
