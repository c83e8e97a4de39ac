"""How many tokens an inline document has. A document of text costs what its text costs, in whatever form it is sent: as
plain text, as base64, as a `data:` URL, under its own media type or a wrong one. Any other costs by its bytes.
"""

from __future__ import annotations

import re
from binascii import Error, a2b_base64
from codecs import getincrementaldecoder
from math import ceil
from typing import Final

from trimtab.context.estimate.images import window
from trimtab.context.estimate.tokens import bytes_tokens, text_tokens

PDF_BYTES_PER_TOKEN: Final = 50
"""Anthropic's guide on PDFs says 1,500 to 3,000 tokens a page. That a page takes 75 to 150 kB is an assumption."""

MAX_PART_TOKENS: Final = 64_000
"""The most a part counts as that is no text: a guess must not empty a whole conversation."""

_SAMPLE: Final = 256 << 10  # characters of base64 that are weighed; a longer text counts in proportion
_HEAD: Final = 1_024  # bytes that show whether it is text
_BASE64 = re.compile(r"[\w+/=-]{64}[\w+/=\r\n-]*", re.ASCII)
_CONTROL = bytes([*range(7), *range(14, 27), *range(28, 32)])  # no text has these; escape sequences do have 27


def document_tokens(data: str) -> int:
    """Tokens of a document in plain text or base64. Never raises."""
    if not is_base64(data):
        return max(1, text_tokens(data))
    return base64_text_tokens(data) or bounded(size_of(data) / PDF_BYTES_PER_TOKEN)


def base64_text_tokens(data: str) -> int:
    """Tokens of the text that base64 holds; 0 where it holds anything else."""
    if not _is_text(window(data, 0, _HEAD)):
        return 0
    if len(data) <= _SAMPLE:
        return bytes_tokens(_decoded(data))
    return ceil(bytes_tokens(_decoded(data[:_SAMPLE])) * len(data) / _SAMPLE)


def is_base64(data: str) -> bool:
    """True when a string looks like base64, and is long enough for a document."""
    return _BASE64.fullmatch(data[:_HEAD]) is not None


def size_of(encoded: str) -> int:
    """Bytes that a base64 text holds, from its length."""
    return len(encoded) * 3 // 4


def bounded(tokens: float) -> int:
    """Tokens of a payload that is no text: at least 1, and at most `MAX_PART_TOKENS`."""
    return min(MAX_PART_TOKENS, max(1, ceil(tokens)))


def _is_text(head: bytes) -> bool:
    """True when these first bytes of a document are text in UTF-8."""
    if not head or head.startswith(b"%PDF-") or len(head.translate(None, _CONTROL)) < len(head):
        return False
    try:
        getincrementaldecoder("utf-8")().decode(head)  # the last character may be cut
    except UnicodeDecodeError:
        return False
    return True


def _decoded(data: str) -> bytes:
    try:
        return a2b_base64(data)
    except (Error, ValueError):
        return data.encode("utf-8", "surrogatepass")
