"""How many tokens a text has, without a tokenizer.

The estimate is a sum of weights. Every pair of neighbouring UTF-8 bytes has a weight by the classes of the two: a pair
shows what a single byte cannot, where a word starts, whether capitals and digits stand inside words (base64), how long
a run of spaces is. Beyond ASCII, each byte above 0x7F has a weight too, and so has each character, by its block of 256
code points, which is its script.

Everything runs at C speed. `translate` writes each byte's class as one hex digit; these digits, followed by the digits
from the second on, are all pairs of neighbours. `unhexlify` turns each pair into one byte, a second `translate` into
its weight, and Adler-32 (whose low half is a plain sum) adds up. No weight is negative, so appending never lowers an
estimate, and `est(a) + est(b)` differs from `est(a + b)` by at most 2 tokens: one start, one rounding, one pair. The
weights are fitted to o200k by `tests/bench/fit_weights.py`; docs/estimation.md has the figures.
"""

from __future__ import annotations

from binascii import unhexlify
from collections.abc import Iterator
from typing import Final
from zlib import adler32

MESSAGE_OVERHEAD: Final = 4
"""Tokens a chat template adds around each message; OpenAI's cookbook on counting tokens says 3, and 1 for a name."""

SCALE: Final = 64
"""Weights are whole numbers of 1/64 token: fine enough for a letter (0.1), small enough for a byte."""

MAX_WEIGHT: Final = 63
"""The largest weight: the sum of `_RUN` of them stays below Adler's modulus, 65,521."""

_RUN: Final = 1024  # weights added up at once
_PART: Final = 1 << 20  # bytes of a text beyond ASCII weighed at once
_BLOCK: Final = 8 * _RUN  # bytes weighed at once: few enough to stay in the processor's nearest cache

_LOWER_RARE = b"bfgjkpqvwxz"
_CONTINUATION_LOW, _CONTINUATION_HIGH = bytes(range(0x80, 0xA0)), bytes(range(0xA0, 0xC0))

CLASSES: Final[tuple[tuple[str, bytes], ...]] = (
    ("common consonant", b"cdhlmnrsty"),
    ("vowel", b"aeiou"),
    ("rare consonant", _LOWER_RARE),
    ("capital", bytes(range(0x41, 0x5B))),
    ("digit", b"0123456789"),
    ("blank", b" \t"),
    ("newline or control", bytes([*range(9), *range(10, 32), 127])),
    ("stop", b".,:;?!"),
    ("rule", b"-=#*_~+"),
    ("bracket, quote, sign", b"\"$%&'()/<>@[\\]^`{|}"),
    ("continuation, low", _CONTINUATION_LOW),
    ("continuation, high", _CONTINUATION_HIGH),
    ("lead of Latin", bytes(range(0xC0, 0xCD))),
    ("lead of Greek, Cyrillic, Hebrew, Arabic", bytes(range(0xCD, 0xE0))),
    ("lead of Indic, Thai, Georgian, Khmer", b"\xe0\xe1"),
    ("lead of signs, CJK, Hangul, emoji", bytes(range(0xE2, 0x100))),
)
"""The sixteen classes of bytes, every byte in exactly one."""

# fmt: off
PAIR_WEIGHTS: Final[tuple[tuple[int, ...], ...]] = (
    ( 5,  7, 17,  0, 63, 21, 63, 23, 16,  8, 19, 19, 52, 22,  0, 51),
    ( 0,  8,  0,  0, 36, 38, 63, 42, 63, 12, 19, 19, 50, 19,  0, 59),
    (17, 22, 63, 63, 55, 20, 63, 24, 61, 29, 19, 19, 63, 24,  0, 19),
    (63, 63, 63, 24, 63,  0, 63, 62,  0, 63, 19, 19, 63, 21,  0, 14),
    (63, 63, 63, 63, 21, 63, 55, 63, 59, 63, 19, 19, 20, 19, 21, 27),
    (13, 17, 32,  0, 63,  3, 29, 48, 13, 39, 19, 19,  0,  0,  0,  0),
    (63, 63, 63, 63, 63, 63,  0, 52, 12, 32, 19, 19, 53, 63, 63, 18),
    (63,  0,  9, 25, 44, 46, 14,  1, 63, 38, 19, 19, 24, 21, 25,  6),
    (37, 29, 61, 21, 60, 45, 34, 63,  1, 56, 19, 19, 36, 51, 46, 16),
    (63, 58, 63, 23, 63, 28,  1,  0, 63, 25, 19, 19, 63, 63, 20,  0),
    ( 9,  0, 31,  9, 25,  0, 59,  0, 53, 63,  0, 13,  0,  0,  0, 15),
    ( 0,  0,  0,  0, 20,  0, 63,  0, 31, 63,  0,  0,  0,  0,  5,  0),
    (19, 19, 19, 19, 19, 19, 19, 19, 19, 19, 60,  3, 19, 19, 19, 19),
    (19, 19, 19, 19, 19, 19, 19, 19, 19, 19,  0,  0, 19, 19, 19, 19),
    (19, 19, 19, 19, 19, 19, 19, 19, 19, 19,  0,  0, 19, 19, 19, 19),
    (19, 19, 19, 19, 19, 19, 19, 19, 19, 19,  0,  0, 19, 19, 19, 19),
)
"""1/64 tokens of a pair: row, the class of the first byte; column, of the second; in the order of CLASSES."""

HIGH_WEIGHTS: Final[tuple[int, ...]] = (
     6,  0,  0,  0,  0, 54, 57,  0, 52, 50, 47,  0,  0,  0,  0,  0,
    32, 52,  0,  2, 20, 21, 63,  0, 36,  0,  0, 24,  0,  0, 25,  0,
     0,  0,  0,  0,  3, 63, 19,  0, 16,  0,  2,  0, 43,  0,  0,  0,
    31,  0,  4, 58, 14,  0, 38,  0,  0,  0, 63,  0, 10, 28,  0,  0,
     3,  3, 63, 44,  0, 63,  0, 25, 13,  0, 63,  3,  0,  0, 22,  0,
    12,  0, 10, 62,  9,  0, 63, 17, 11,  0,  0, 41, 58,  2, 50,  3,
     0,  0, 24, 19,  0,  0,  0,  0,  4, 31,  3,  0,  0,  0,  3,  0,
    32,  3,  3,  2,  3,  3,  3,  3,  3,  3,  3,  3,  3,  3,  3,  3,
)
"""1/64 tokens of the bytes 0x80 to 0xFF, beside what their pairs weigh."""

SCRIPT_WEIGHTS: Final[tuple[int, ...]] = (
     0,  0,  0,  0,  0,  0,  0, 60, 13,  0, 17, 21,  0,  6, 18, 63,
     0, 13, 63, 63, 17, 14, 23,  0, 63, 23, 19, 21, 13, 14,  0, 13,
     0, 10, 10, 13, 13,  0, 63,  0, 17, 13, 13, 12, 13, 63, 13, 13,
     1, 13, 13, 13, 13, 13, 13, 19, 17, 19, 26, 13, 12, 13, 13, 13,
    13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 18,  0,
    23,  0,  0,  0,  0, 44,  0,  0, 43, 40, 15, 26, 14, 26,  0,  1,
     0, 36,  0,  0, 10,  0, 63,  0,  0, 14, 55, 21, 30,  7, 26, 23,
    52, 63, 18, 21, 11,  0,  0, 41,  0,  0, 22,  0,  0, 54,  0,  1,
    63, 31, 63, 16, 21, 15, 27, 14,  0,  0, 63,  0, 18,  0, 24,  0,
    16,  0, 13, 40, 11,  0, 14,  2, 21, 27, 18, 18, 14, 14, 20, 25,
    12, 13, 13, 12, 13, 13, 13, 13, 13, 13, 13, 13,  6, 11, 16, 15,
    13, 19,  0, 11,  7, 11, 11, 10,  7,  6, 13, 13,  6, 14, 11, 13,
    10, 11,  0, 13, 12,  0, 14,  5,  4, 10, 13, 13, 13, 13, 12, 12,
    14, 15, 11, 11, 12,  2, 13, 12, 42, 13, 13, 11, 63, 53,  0,  0,
    13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13,
    13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 12, 13, 13, 13,  0, 25,
)
"""1/64 tokens of a UTF-16 unit by its high byte, that is its block of 256 code points; surrogates too."""
# fmt: on


def _class_table() -> bytes:
    digits = bytearray(256)
    for digit, (_, members) in zip(b"0123456789abcdef", CLASSES, strict=True):
        for byte in members:
            digits[byte] = digit
    return bytes(digits)


_CLASS_DIGITS = _class_table()
_CLASS = bytes([int(chr(digit), 16) for digit in _CLASS_DIGITS])
_PAIR_TABLE = bytes(weight for row in PAIR_WEIGHTS for weight in row)
_ASCII = bytes(range(128))
_HIGH_TABLE = bytes(128) + bytes(HIGH_WEIGHTS)
_SCRIPT_TABLE = bytes(SCRIPT_WEIGHTS)


def text_tokens(text: str) -> int:
    """Estimated o200k tokens of a decoded text: 0 for an empty one, otherwise at least 1. Never raises: a lone
    surrogate counts as its three bytes. Linear in the length."""
    if text.isascii() and len(text) <= _BLOCK:  # most texts by far
        return 1 + _pair_weight(text.encode()) // SCALE if text else 0
    return bytes_tokens(text.encode("utf-8", "surrogatepass"))


def bytes_tokens(data: bytes) -> int:
    """Estimated o200k tokens of UTF-8 bytes, like `text_tokens`. Never raises: bytes that are not UTF-8 count as
    bytes, without the weight of a character."""
    # The first byte has no neighbour before it, so the pair that begins its word is missing: hence the 1.
    return 1 + weight(data) // SCALE if data else 0


def weight(data: bytes) -> int:
    """What `bytes_tokens` makes tokens of, in 1/64. The weight of two texts together is that of both, and `between` the
    last byte of the one and the first of the other."""
    if len(data) <= _BLOCK:
        found = _pair_weight(data)
    else:
        # Each block includes the first byte of the next, so that the pair across the border counts too.
        found = sum([_pair_weight(data[at : at + _BLOCK + 1]) for at in range(0, len(data), _BLOCK)])
    if not data.isascii():
        parts = (data,) if len(data) <= _PART else _whole_characters(data)
        found += sum([_high_weight(part.translate(None, _ASCII)) for part in parts])
    return found


def between(last: int, first: int) -> int:
    """The weight of two bytes as neighbours, in 1/64 tokens."""
    return _PAIR_TABLE[_CLASS[last] * 16 + _CLASS[first]]


def _whole_characters(data: bytes) -> Iterator[bytes]:
    """UTF-8 in parts that end with a whole character: one call over megabytes would keep other threads waiting."""
    at = 0
    while at < len(data):
        end = at + _PART
        while end < len(data) and end > at + _PART - 4 and 0x80 <= data[end] < 0xC0:
            end -= 1
        yield data[at:end] if at or end < len(data) else data
        at = end


def _pair_weight(block: bytes) -> int:
    """The weight of all pairs of neighbours: first of those at even places, then of those at odd ones."""
    digits = block.translate(_CLASS_DIGITS)
    pairs = unhexlify(digits[:-1] + digits[1:] if len(digits) % 2 else digits + digits[1:-1])
    weights = pairs.translate(_PAIR_TABLE)
    return adler32(weights, 0) & 0xFFFF if len(weights) <= _RUN else _total(weights)


def _high_weight(high: bytes) -> int:
    """The weight of a text's bytes above 0x7F: of each byte, and of each character by its block, which is the second
    byte of a little-endian UTF-16 unit."""
    blocks = high.decode("utf-8", "ignore").encode("utf-16-le")[1::2]
    return _total(high.translate(_HIGH_TABLE)) + _total(blocks.translate(_SCRIPT_TABLE))


def _total(weights: bytes) -> int:
    return sum([adler32(weights[at : at + _RUN], 0) & 0xFFFF for at in range(0, len(weights), _RUN)])
