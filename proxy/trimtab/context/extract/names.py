"""The names in a text: the words nobody can guess, such as paths, ids, numbers and names in code.

A name is a run of letters, digits and `_ . / @ -` that is more than a plain word: it has a digit, or a sign or a
capital inside. Nothing here knows a language, a tool or a file type, so a text in which every name is replaced by
another of the same form gives the same places.
"""

from __future__ import annotations

from array import array
from typing import Final

LEAST, MOST = 4, 120
"""Bytes of a name. Shorter ones occur everywhere, longer ones are data."""

_SIGNS = b"_./@-"
_EDGES = b"./@-"
_TO_WORDS: Final = bytes(
    byte if byte > 127 or chr(byte).isalnum() or byte in _SIGNS else ord(" ") for byte in range(256)
)


def mentions(text: str) -> array[int]:
    """Where each name of a text stands first: for each its hash, its start and its stop in characters. Numbers only,
    so that they may be remembered where text may not. Linear in the length of the text."""
    found, start = array("q"), 0
    words = dict.fromkeys(text.encode("utf-8", "surrogatepass").translate(_TO_WORDS).split())
    # By far the most are plain words: of letters, without a capital inside.
    for word in [w for w in words if not (w.isalpha() and (w.islower() or w.istitle()))]:
        name = word.strip(_EDGES)
        if LEAST <= len(name) <= MOST and name.isascii() and not _is_plain(name.replace(b"-", b"")):
            characters = name.decode()
            start = text.find(characters, start)  # words come in the order of their first places
            found.extend((hash(name), start, start + len(characters)))
    return found


def _is_plain(word: bytes) -> bool:
    return word.isalpha() and (word.islower() or word.istitle())
