"""Compressed bodies (gzip, deflate, br, zstd), decoded piece by piece and never beyond a bound.

A few kilobytes can decompress into gigabytes, so every decoder has a bound on its output and stops there. Its pieces
are small, so that whoever reads along can let others run between two of them. An encoding that is unknown here has no
decoder: such a body is relayed as it is.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any, Protocol

import brotli
from backports import zstd

from trimtab.errors import BodyTooLarge, InvalidRequest, RequestError

PIECE = 64 << 10
"""The most decoded bytes in one piece; brotli may give twice as many."""

_FREE = 1 << 20  # decoded bytes that a `ratio` allows in any case: the beginning of a stream compresses best


class Decoder(Protocol):
    """Decodes one body."""

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """The decoded bytes of `data`, in pieces of about `PIECE` bytes. Read all of them before the next call.
        Raises BodyTooLarge beyond the bound, also at every later call, and InvalidRequest for broken input."""
        ...

    def feed(self, data: bytes) -> bytes:
        """The decoded bytes of `data` in one. Raises as `pieces` does."""
        ...

    def flush(self) -> bytes:
        """The decoded bytes that are left at the end. Raises InvalidRequest when the input ended too early."""
        ...


def decoder(content_encoding: str | None, limit: int, ratio: int | None = None) -> Decoder | None:
    """A decoder for a Content-Encoding; None for an unknown one, and for several in a row.

    `limit` is the largest decoded size in bytes. With `ratio` it is also so many times the encoded size, and a
    megabyte: real texts compress 10 to 100 times, bombs 1,000 times and more.
    """
    name = (content_encoding or "identity").strip().lower()
    found = _DECODERS.get(name)
    return None if found is None else found(limit, ratio)


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

    def __init__(self, limit: int, ratio: int | None) -> None:
        self._limit, self._ratio = limit, ratio
        self._allowed = limit if ratio is None else min(limit, _FREE)
        self._given = 0

    def pieces(self, data: bytes) -> Iterator[bytes]:
        if self._ratio is not None:
            self._allowed = min(self._limit, self._allowed + self._ratio * len(data))
        self._check()
        return self._decode(data)

    def feed(self, data: bytes) -> bytes:
        return b"".join(self.pieces(data))

    def flush(self) -> bytes:
        return b""

    def _decode(self, data: bytes) -> Iterator[bytes]:
        for at in range(0, len(data), PIECE):
            yield self._counted(data[at : at + PIECE])

    @property
    def _room(self) -> int:
        """The most bytes of the next piece: one more than is allowed, which then raises."""
        return min(PIECE, self._allowed - self._given + 1)

    def _counted(self, data: bytes) -> bytes:
        self._given += len(data)
        self._check()
        return data

    def _check(self) -> None:
        if self._given > self._allowed:
            raise BodyTooLarge(f"The decoded body is larger than {self._limit} bytes. Send a smaller body.")

    def _invalid(self) -> InvalidRequest:
        return InvalidRequest(f"The body is not valid {self.name}. Correct its bytes or its Content-Encoding header.")


class _Framed(_Bounded):
    """One frame, or several in a row."""

    errors: type[Exception] = zlib.error
    padding = b""  # what may follow the last frame

    def __init__(self, limit: int, ratio: int | None) -> None:
        super().__init__(limit, ratio)
        self._frame = self._opened()
        self._begun = False

    def _opened(self) -> Any:
        """A decompressor for one frame."""
        raise NotImplementedError

    def _decode(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._frame.eof:
                if not (data := data.lstrip(self.padding) if self.padding else data):
                    break
                self._frame = self._opened()
            self._begun = True
            yield from self._pieces_of_frame(data)
            data = self._frame.unused_data

    def _pieces_of_frame(self, data: bytes) -> Iterator[bytes]:
        raise NotImplementedError

    def _decompress(self, data: bytes) -> bytes:
        try:
            return self._counted(self._frame.decompress(data, self._room))
        except self.errors:
            raise self._invalid() from None

    def flush(self) -> bytes:
        if self._begun and not self._frame.eof:
            raise self._invalid()
        return b""


class _Gzip(_Framed):
    """RFC 1952; several members in a row are its §2.2."""

    name, padding = "gzip", b"\0"
    wbits = 16 + zlib.MAX_WBITS

    def _opened(self) -> Any:
        return zlib.decompressobj(self.wbits)

    def _pieces_of_frame(self, data: bytes) -> Iterator[bytes]:
        while True:
            piece = self._decompress(data)
            if piece:
                yield piece
            data = self._frame.unconsumed_tail
            if self._frame.eof or not (data or piece):
                return


class _Deflate(_Gzip):
    """zlib's format (RFC 9110 §8.4.1.2), or raw deflate as some servers send it."""

    name = "deflate"
    wbits = zlib.MAX_WBITS

    def __init__(self, limit: int, ratio: int | None) -> None:
        super().__init__(limit, ratio)
        self._head = b""

    def _decode(self, data: bytes) -> Iterator[bytes]:
        if not self._begun:
            self._head += data
            if len(self._head) < 2:
                return
            data = self._head
            if not _zlib_header(data):
                self._frame = zlib.decompressobj(-zlib.MAX_WBITS)
        yield from super()._decode(data)

    def flush(self) -> bytes:
        if self._head and not self._begun:
            raise self._invalid()
        return super().flush()


class _Zstd(_Framed):
    """RFC 8878; several frames in a row are its §3."""

    name, errors = "zstd", zstd.ZstdError

    def _opened(self) -> Any:
        return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _WINDOW_LOG})

    def _pieces_of_frame(self, data: bytes) -> Iterator[bytes]:
        while True:
            if piece := self._decompress(data):
                yield piece
            data = b""
            if self._frame.eof or self._frame.needs_input:
                return


_WINDOW_LOG = 23  # 8 MB, the most that RFC 9659 §3 allows for a content-encoding; larger windows cost memory


class _Brotli(_Bounded):
    name = "br"

    def __init__(self, limit: int, ratio: int | None) -> None:
        super().__init__(limit, ratio)
        self._stream = brotli.Decompressor()
        self._begun = False

    def _decode(self, data: bytes) -> Iterator[bytes]:
        more = bool(data)
        while more:
            self._begun = True
            if piece := self._process(data):
                yield piece
            data = b""
            more = bool(piece) and not self._stream.is_finished()  # it stopped at its bound and has more

    def flush(self) -> bytes:
        if self._begun and not self._stream.is_finished():
            raise self._invalid()
        return b""

    def _process(self, data: bytes) -> bytes:
        try:
            return self._counted(self._stream.process(data, output_buffer_limit=self._room))
        except brotli.error:
            raise self._invalid() from None


_DECODERS = {
    "": _Bounded,
    "identity": _Bounded,
    "gzip": _Gzip,
    "x-gzip": _Gzip,
    "deflate": _Deflate,
    "br": _Brotli,
    "zstd": _Zstd,
}


def _zlib_header(data: bytes) -> bool:
    """True for the first two bytes of zlib's format (RFC 1950 §2.2): method 8, and both divisible by 31."""
    return data[0] & 0x0F == 8 and (data[0] << 8 | data[1]) % 31 == 0
