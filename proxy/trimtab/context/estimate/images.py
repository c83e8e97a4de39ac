"""Width and height of an image from its base64, reading only the header.

Base64 can be decoded from anywhere, because four characters are three bytes. So a size costs a few windows of some
dozen bytes, however large the image is, also for a JPEG whose frame header lies behind a thumbnail and a colour
profile. A header that is not well formed gives None, never an error.
"""

from __future__ import annotations

from binascii import Error, a2b_base64
from collections.abc import Callable
from typing import Final

Size = tuple[int, int]
"""Width and height, in pixels."""

_HEAD: Final = 32  # bytes; PNG, GIF and WebP have their size within the first 30
_MAX_SEGMENTS: Final = 64  # of a JPEG, before its frame header; real ones have about ten
# Frame headers of ITU-T T.81 table B.1: SOF0 to SOF15 without DHT (C4), JPG (C8) and DAC (CC).
_FRAME_HEADERS: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def image_size(encoded: str) -> Size | None:
    """Width and height in pixels of a PNG, GIF, WebP or JPEG in base64; None when the header is of another format,
    broken or cut off. Never raises."""
    head = window(encoded, 0, _HEAD)
    for magic, read in _READERS:
        if head.startswith(magic):
            size = read(head, encoded)
            return size if size and min(size) > 0 else None
    return None


def window(encoded: str, start: int, length: int) -> bytes:
    """At most `length` bytes from byte `start` on; fewer where the base64 ends; empty where it is broken."""
    skipped = start % 3
    first = start // 3 * 4
    last = first + (skipped + length + 2) // 3 * 4
    try:
        return a2b_base64(encoded[first:last])[skipped : skipped + length]
    except (Error, ValueError):  # ValueError: characters beyond ASCII
        return b""


def _png(head: bytes, _: str) -> Size | None:
    """PNG specification, 11.2.1: IHDR is the first chunk."""
    return (_big(head[16:20]), _big(head[20:24])) if head[12:16] == b"IHDR" else None


def _gif(head: bytes, _: str) -> Size:
    """GIF89a, 18: the logical screen descriptor follows the signature."""
    return _little(head[6:8]), _little(head[8:10])


def _webp(head: bytes, _: str) -> Size | None:
    """RFC 9649, 2.5 to 2.7: lossy, lossless and extended form."""
    form = head[8:16]
    if form == b"WEBPVP8 ":
        return _little(head[26:28]) & 0x3FFF, _little(head[28:30]) & 0x3FFF
    if form == b"WEBPVP8L":
        bits = _little(head[21:25])
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if form == b"WEBPVP8X":
        return _little(head[24:27]) + 1, _little(head[27:30]) + 1
    return None


def _jpeg(_: bytes, encoded: str) -> Size | None:
    """ITU-T T.81, B.2: the frame header follows other marker segments."""
    at = 2
    for _segment in range(_MAX_SEGMENTS):
        segment = window(encoded, at, 9)
        if len(segment) < 9 or segment[0] != 0xFF:
            return None
        if segment[1] in _FRAME_HEADERS:
            return _big(segment[7:9]), _big(segment[5:7])
        # A marker may be preceded by any number of fill bytes, all 0xFF.
        at += 1 if segment[1] == 0xFF else 2 + _big(segment[2:4])
    return None


def _big(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _little(data: bytes) -> int:
    return int.from_bytes(data, "little")


_READERS: Final[tuple[tuple[bytes, Callable[[bytes, str], Size | None]], ...]] = (
    (b"\x89PNG\r\n\x1a\n", _png),
    (b"\xff\xd8", _jpeg),
    (b"GIF8", _gif),
    (b"RIFF", _webp),
)
