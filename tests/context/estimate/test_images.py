"""Sizes read from the headers of images; None for anything that is not a header."""

from __future__ import annotations

import base64
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.images import png
from trimtab.context.estimate.images import image_size


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + bytes(60)


def jpeg(width: int, height: int, *, before: bytes = b"", frame: int = 0xC0) -> bytes:
    head = b"\xff\xd8\xff\xe0" + struct.pack(">H", 16) + bytes(14)
    return head + before + struct.pack(">BBHBHHB", 0xFF, frame, 17, 8, height, width, 3) + bytes(60)


def webp(form: bytes, body: bytes) -> bytes:
    return b"RIFF" + bytes(4) + b"WEBP" + form + bytes(4) + body + bytes(60)


LOSSY = webp(b"VP8 ", bytes(3) + b"\x9d\x01\x2a" + struct.pack("<HH", 640, 480))
LOSSLESS = webp(b"VP8L", b"\x2f" + struct.pack("<I", (640 - 1) | (480 - 1) << 14))
EXTENDED = webp(b"VP8X", bytes(4) + (640 - 1).to_bytes(3, "little") + (480 - 1).to_bytes(3, "little"))
THUMBNAIL = b"\xff\xe1" + struct.pack(">H", 60_000) + b"\xff\xc0" * 29_999
TABLES = b"\xff\xc4" + struct.pack(">H", 20) + bytes(18)

IMAGES = [
    ("PNG", png(640, 480)),
    ("GIF", gif(640, 480)),
    ("JPEG", jpeg(640, 480)),
    ("progressive JPEG", jpeg(640, 480, frame=0xC2)),
    ("JPEG behind a large thumbnail that looks like frames", jpeg(640, 480, before=THUMBNAIL)),
    ("JPEG with Huffman tables first", jpeg(640, 480, before=TABLES)),
    ("JPEG with fill bytes", jpeg(640, 480, before=b"\xff\xff\xff")),
    ("WebP, lossy", LOSSY),
    ("WebP, lossless", LOSSLESS),
    ("WebP, extended", EXTENDED),
]


@pytest.mark.parametrize("image", [image for _, image in IMAGES], ids=[name for name, _ in IMAGES])
def test_width_and_height_come_from_the_header(image: bytes) -> None:
    assert image_size(base64.b64encode(image).decode()) == (640, 480)


BROKEN = [
    ("nothing", ""),
    ("no base64", "!!!! ###"),
    ("beyond ASCII", "图像" * 50),
    ("text", base64.b64encode(b"hello, world, this is no image at all").decode()),
    ("cut off", base64.b64encode(png(640, 480)[:18]).decode()),
    ("no width", base64.b64encode(png(0, 480)).decode()),
    ("JPEG without a frame", base64.b64encode(b"\xff\xd8" + TABLES * 100).decode()),
    ("JPEG that stands still", base64.b64encode(b"\xff\xd8" + b"\xff\xe0\x00\x00" * 200).decode()),
    ("SVG", base64.b64encode(b"<svg xmlns='http://www.w3.org/2000/svg'/>").decode()),
]


@pytest.mark.parametrize("encoded", [text for _, text in BROKEN], ids=[name for name, _ in BROKEN])
def test_what_is_no_header_is_no_size(encoded: str) -> None:
    assert image_size(encoded) is None


@given(st.sampled_from([image for _, image in IMAGES]), st.integers(0, 60), st.binary(max_size=8))
def test_a_damaged_header_is_a_size_or_none(image: bytes, at: int, damage: bytes) -> None:
    damaged = image[:at] + damage + image[at + len(damage) :]
    size = image_size(base64.b64encode(damaged).decode())
    assert size is None or min(size) > 0


@given(st.text(max_size=200))
def test_any_text_is_a_size_or_none(text: str) -> None:
    assert image_size(text) is None
