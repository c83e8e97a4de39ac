"""Every encoding, however it is cut, and never more than allowed."""

from __future__ import annotations

import gzip
import random
import zlib
from collections.abc import Callable

import brotli
import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from trimtab.errors import BodyTooLarge, InvalidRequest, TrimtabError
from trimtab.wire.encoding import PIECE, decode_body, decode_or_empty, decoder

LIMIT = 100_000
TEXT = '{"error":{"message":"北京 is too long"}}'.encode() * 50


def raw_deflate(data: bytes) -> bytes:
    packing = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packing.compress(data) + packing.flush()


PACKED: dict[str, tuple[str | None, Callable[[bytes], bytes]]] = {
    "none": (None, bytes),
    "empty": ("", bytes),
    "identity": ("identity", bytes),
    "gzip": ("gzip", gzip.compress),
    "its old name, loud": (" X-GZIP ", gzip.compress),
    "two gzip members": ("gzip", lambda data: gzip.compress(data[:9]) + gzip.compress(data[9:])),
    "gzip with padding": ("gzip", lambda data: gzip.compress(data) + b"\0\0\0"),
    "deflate": ("deflate", zlib.compress),
    "deflate without its header": ("deflate", raw_deflate),
    "br": ("br", brotli.compress),
    "zstd": ("zstd", zstd.compress),
    "two zstd frames": ("zstd", lambda data: zstd.compress(data[:9]) + zstd.compress(data[9:])),
}
SQUEEZED = {name: case for name, case in PACKED.items() if case[1] is not bytes}


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize(("encoding", "pack"), PACKED.values(), ids=PACKED)
def test_it_comes_out_as_it_went_in(encoding: str | None, pack: Callable[[bytes], bytes], size: int) -> None:
    body = pack(TEXT)
    reading = decoder(encoding, LIMIT)
    assert reading is not None
    pieces = [reading.feed(body[i : i + size]) for i in range(0, len(body), size)]
    assert b"".join(pieces) + reading.flush() == TEXT
    assert decode_body(body, encoding, LIMIT) == TEXT


@pytest.mark.parametrize(("encoding", "pack"), PACKED.values(), ids=PACKED)
def test_exactly_the_limit_is_allowed_and_one_byte_more_is_not(
    encoding: str | None, pack: Callable[[bytes], bytes]
) -> None:
    body = pack(TEXT)
    assert decode_body(body, encoding, len(TEXT)) == TEXT
    with pytest.raises(BodyTooLarge, match=f"larger than {len(TEXT) - 1} bytes"):
        decode_body(body, encoding, len(TEXT) - 1)


@pytest.mark.parametrize(("encoding", "pack"), SQUEEZED.values(), ids=SQUEEZED)
def test_a_bomb_is_refused(encoding: str, pack: Callable[[bytes], bytes]) -> None:
    bomb = pack(b"\0" * 50_000_000)
    assert len(bomb) < 100_000
    with pytest.raises(BodyTooLarge):
        decode_body(bomb, encoding, LIMIT)


@pytest.mark.parametrize(("encoding", "pack"), SQUEEZED.values(), ids=SQUEEZED)
def test_a_body_that_is_something_else_is_refused(encoding: str, pack: Callable[[bytes], bytes]) -> None:
    with pytest.raises(InvalidRequest, match="not valid"):
        decode_body(b'{"plain": "json"}', encoding, LIMIT)
    with pytest.raises(InvalidRequest, match="not valid"):
        decode_body(gzip.compress(TEXT)[:-12] if "gz" in encoding.lower() else pack(TEXT)[:-12], encoding, LIMIT)


@pytest.mark.parametrize("encoding", ["compress", "gzip, br", "utf-8"])
def test_an_unknown_encoding_has_no_decoder(encoding: str) -> None:
    assert decoder(encoding, LIMIT) is None
    assert decode_body(b"x", encoding, LIMIT) is None


@pytest.mark.parametrize("encoding", [None, "gzip", "deflate", "br", "zstd"])
def test_an_empty_body_is_empty_in_every_encoding(encoding: str | None) -> None:
    assert decode_body(b"", encoding, LIMIT) == b""


def test_what_cannot_be_decoded_reads_as_empty() -> None:
    assert decode_or_empty(gzip.compress(TEXT), "gzip", LIMIT) == TEXT
    assert decode_or_empty(gzip.compress(TEXT), "gzip", len(TEXT) - 1) == b""
    assert decode_or_empty(TEXT, "gzip", LIMIT) == decode_or_empty(TEXT, "compress", LIMIT) == b""
    assert decode_or_empty(TEXT, "", 1) == decode_or_empty(TEXT, "identity", 1) == TEXT


@given(st.sampled_from(["gzip", "deflate", "br", "zstd"]), st.binary(max_size=200), st.integers(0, 300))
def test_any_bytes_give_a_body_or_a_clear_error(encoding: str, body: bytes, limit: int) -> None:
    try:
        decoded = decode_body(body, encoding, limit)
    except TrimtabError:
        return
    assert decoded is not None
    assert len(decoded) <= limit


@pytest.mark.parametrize(("encoding", "pack"), SQUEEZED.values(), ids=SQUEEZED)
def test_it_comes_in_small_pieces(encoding: str, pack: Callable[[bytes], bytes]) -> None:
    reading = decoder(encoding, 10 * PIECE)
    assert reading is not None
    pieces = list(reading.pieces(pack(bytes(5 * PIECE + 1))))
    assert max(map(len, pieces)) <= 2 * PIECE
    assert b"".join(pieces) + reading.flush() == bytes(5 * PIECE + 1)


@pytest.mark.parametrize(("encoding", "pack"), SQUEEZED.values(), ids=SQUEEZED)
def test_beyond_its_bound_it_gives_nothing_more(encoding: str, pack: Callable[[bytes], bytes]) -> None:
    """zlib takes a bound of 0 for no bound at all."""
    reading = decoder(encoding, LIMIT)
    assert reading is not None
    body = pack(bytes(10 * LIMIT))
    for part in (body, body[-1:]):
        with pytest.raises(BodyTooLarge):
            reading.feed(part)


@pytest.mark.parametrize(("encoding", "pack"), SQUEEZED.values(), ids=SQUEEZED)
def test_a_ratio_stops_a_bomb_and_lets_text_pass(encoding: str, pack: Callable[[bytes], bytes]) -> None:
    bomb, text = pack(bytes(50_000_000)), pack(random.Random(1).randbytes(2_000_000).hex().encode())
    with pytest.raises(BodyTooLarge):
        decoder(encoding, 1 << 30, ratio=100).feed(bomb)  # type: ignore[union-attr]
    assert len(decoder(encoding, 1 << 30, ratio=100).feed(text)) == 4_000_000  # type: ignore[union-attr]


def test_a_window_of_more_than_eight_megabytes_is_refused() -> None:
    """A content-encoding may not ask for one (RFC 9659): it costs that much memory before a byte comes out."""
    huge = zstd.compress(TEXT, options={zstd.CompressionParameter.window_log: 27})
    streamed = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: 27})
    body = streamed.compress(TEXT) + streamed.flush()
    assert decode_body(huge, "zstd", LIMIT) == TEXT  # the size is stated: no window is needed
    with pytest.raises(InvalidRequest):
        decode_body(body, "zstd", LIMIT)
