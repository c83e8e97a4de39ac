"""How many tokens a text is, without a tokenizer.

The rule: what stands in the text has a weight, and the estimate is the sum. Every pair of neighbouring UTF-8
bytes weighs by the classes of the two: pairs tell what single bytes cannot, where words start, whether
capitals and digits stand inside words (base64), how long a run of spaces is. Beyond ASCII, each byte above
0x7F weighs by itself too, and each character by its block of 256 code points, which is its script.

Everything runs at C speed: `translate` writes each byte's class as one hex digit, so `unhexlify` turns two
neighbours into one byte, a second `translate` weighs it, and Adler-32 (whose low half is a plain sum) adds
up. No weight is negative, so the estimate is monotone under appending and additive to within
`ADDITIVE_SLACK`. Weights are fitted to o200k by `tests/bench/fit_weights.py`; see docs/estimation.md.
"""

from __future__ import annotations

from binascii import unhexlify
from typing import Final
from zlib import adler32

SCALE: Final = 64
"""Weights are whole numbers of 1/64 token: fine enough for a letter (0.1), small enough for a byte."""

ADDITIVE_SLACK: Final = 2
"""Tokens by which `est(a) + est(b)` may differ from `est(a + b)`: one start, one rounding, one pair."""

MAX_PAIR_WEIGHT: Final = 63
MAX_HIGH_WEIGHT: Final = 31
MAX_SCRIPT_WEIGHT: Final = 31
"""Bounds that keep a block's sum under Adler's modulus 65,521: 1,024 * 63 and 2,048 * 31 both are."""

_BLOCK: Final = 2048  # bytes; a block has 1,024 pairs that start at even and 1,024 that start at odd places

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
    ( 4,  7, 15,  0, 63, 19, 63, 24, 11,  9, 19, 19, 54, 33,  0, 18),
    ( 0,  6,  0,  0, 38, 31, 63, 43, 61, 10, 19, 19, 46, 19,  0, 12),
    (17, 21, 63, 63, 63, 18, 63, 26, 56, 26, 19, 19, 63, 42,  0, 39),
    (63, 63, 63, 24, 63,  0, 63, 41,  0, 63, 19, 19, 63, 18,  0,  0),
    (63, 63, 59, 63, 21, 63, 54, 63, 57, 63, 19, 19, 20, 19, 20, 11),
    (18, 23, 37,  0, 63,  2, 43, 55, 12, 42, 19, 19,  0,  0,  0,  0),
    (63, 63, 63, 63, 63, 63,  0, 61,  8, 46, 19, 19, 49, 63, 63,  2),
    (63, 20,  5, 34, 45, 39,  8,  1, 63, 32, 19, 19, 33, 16, 20,  0),
    (46, 35, 63, 22, 60, 52, 33, 63,  1, 62, 19, 19, 25, 63, 31,  0),
    (63, 52, 63, 24, 63, 23,  3,  8, 63, 24, 19, 19, 54, 63,  0,  0),
    (52,  0, 63,  0, 23,  0, 63,  0, 56, 44,  0, 56,  0, 34,  0, 10),
    ( 0,  0,  0,  0,  8,  0, 63,  0, 34, 58, 10,  0,  0,  0, 31,  0),
    (19, 19, 19, 19, 19, 19, 19, 19, 19, 19, 63, 12, 19, 19, 19, 19),
    (19, 19, 19, 19, 19, 19, 19, 19, 19, 19,  0,  4, 19, 19, 19, 19),
    (19, 19, 19, 19, 19, 19, 19, 19, 19, 19,  7,  0, 19, 19, 19, 19),
    (19, 19, 19, 19, 19, 19, 19, 19, 19, 19,  0,  0, 19, 19, 19, 19),
)
"""1/64 tokens of a pair: row, the class of the first byte; column, of the second; in the order of CLASSES."""

HIGH_WEIGHTS: Final[tuple[int, ...]] = (
     0,  0,  0,  0,  0,  4, 21,  0, 31, 31, 31, 31, 31, 16, 31,  0,
    31, 31, 31, 31, 31, 26, 31,  0,  0, 31,  0, 31,  6, 31, 24, 31,
    25,  0, 31, 30,  0, 16,  0,  0,  7, 31,  0, 19, 31, 31,  7,  0,
    21,  0,  0, 31, 14,  0, 31,  0,  0,  0, 31,  0, 31, 31,  0,  0,
     6,  6, 31, 31,  0, 31,  0, 23,  4,  0, 29,  8,  0,  3,  9,  0,
     0,  0,  0, 12, 31,  0, 31, 31,  0,  0,  0, 13, 31,  4, 31,  7,
     0,  0, 31,  0,  0,  0,  0,  0, 31, 31,  0,  0,  0,  0,  6, 29,
    31,  6,  7,  6,  6,  6,  6,  6,  6,  6,  6,  6,  6,  6,  6,  6,
)
"""1/64 tokens of the bytes 0x80 to 0xFF, beside what their pairs weigh."""

SCRIPT_WEIGHTS: Final[tuple[int, ...]] = (
    0,
) * 256
"""1/64 tokens of a UTF-16 unit by its high byte, that is its block of 256 code points; surrogates too."""
# fmt: on


def _class_table() -> bytes:
    digits = bytearray(256)
    for digit, (_, members) in zip(b"0123456789abcdef", CLASSES, strict=True):
        for byte in members:
            digits[byte] = digit
    return bytes(digits)


_CLASS_DIGITS = _class_table()
_PAIR_TABLE = bytes(weight for row in PAIR_WEIGHTS for weight in row)
_HIGH_TABLE = bytes(128) + bytes(HIGH_WEIGHTS)
_SCRIPT_TABLE = bytes(SCRIPT_WEIGHTS)


def text_tokens(text: str) -> int:
    """Estimated o200k tokens of a decoded text: 0 for the empty one, else at least 1. Never raises; a lone
    surrogate is a character like others. Linear in the length."""
    if not text:
        return 0
    weight = _byte_weight(text.encode("utf-8", "surrogatepass"))
    if not text.isascii():
        weight += _script_weight(text)
    # The first byte has no neighbour before it, so the pair that opens a word is missing: the 1 stands for it.
    return 1 + weight // SCALE


def bytes_tokens(data: bytes) -> int:
    """The same of UTF-8 bytes. Never raises: bytes that are not UTF-8 weigh as bytes, and are no character."""
    if not data:
        return 0
    weight = _byte_weight(data)
    if not data.isascii():
        weight += _script_weight(data.decode("utf-8", "ignore"))
    return 1 + weight // SCALE


def _byte_weight(data: bytes) -> int:
    if len(data) <= _BLOCK:
        return _block_weight(data)
    # Each block reaches one byte into the next, so that the pair across the border counts too.
    return sum(_block_weight(data[at : at + _BLOCK + 1]) for at in range(0, len(data), _BLOCK))


def _block_weight(block: bytes) -> int:
    """1/64 tokens of at most `_BLOCK` + 1 bytes; the last of `_BLOCK` + 1 only as the end of a pair."""
    digits = block.translate(_CLASS_DIGITS)
    odd_end = len(digits) % 2
    even_pairs = unhexlify(digits[: len(digits) - odd_end])
    odd_pairs = unhexlify(digits[1 : len(digits) - 1 + odd_end])
    weight = adler32(even_pairs.translate(_PAIR_TABLE), 0) & 0xFFFF
    weight += adler32(odd_pairs.translate(_PAIR_TABLE), 0) & 0xFFFF
    if not block.isascii():
        weight += adler32(block[:_BLOCK].translate(_HIGH_TABLE), 0) & 0xFFFF
    return weight


def _script_weight(text: str) -> int:
    weights = text.encode("utf-16-le", "surrogatepass")[1::2].translate(_SCRIPT_TABLE)
    return sum(adler32(weights[at : at + _BLOCK], 0) & 0xFFFF for at in range(0, len(weights), _BLOCK))
