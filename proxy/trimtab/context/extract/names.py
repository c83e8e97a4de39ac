"""The names in a text: the words nobody can guess, such as paths, ids, numbers and names in code.

A name is a run of letters, digits and `_ . / @ -` that is more than a plain word: it has a digit, or a sign or a
capital inside. Nothing here knows a language, a tool or a file type, so a text in which every name is replaced by
another of the same form gives the same places.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

LEAST, MOST = 4, 120
"""Bytes of a name. Shorter ones occur everywhere, longer ones are data."""

_NEAR = 64  # characters
_SIGNS = b"_./@-"
_EDGES = b"./@-"
_TO_WORDS: Final = bytes(
    byte if byte > 127 or chr(byte).isalnum() or byte in _SIGNS else ord(" ") for byte in range(256)
)


def words(text: str) -> list[bytes]:
    """The runs of characters of which some are names, in order. Linear in the length of the text, and quick."""
    return text.encode("utf-8", "surrogatepass").translate(_TO_WORDS).split()


def names_among(words: Iterable[bytes]) -> dict[bytes, str]:
    """The words that are names, each with its name: without signs at its edges."""
    found = {}
    # By far the most are plain words: of letters, without a capital inside.
    for word in [w for w in words if not (w.isalpha() and (w.islower() or w.istitle()))]:
        name = word.strip(_EDGES)
        if LEAST <= len(name) <= MOST and name.isascii() and not _is_plain(name.replace(b"-", b"")):
            found[word] = name.decode()
    return found


def has_name(text: str) -> bool:
    """True when one of the words of a text is a name. Most texts that have one have it near their beginning."""
    return _is_among(words(text[:_NEAR])[:-1]) or _is_among(words(text))  # the last word there may go on


def _is_among(words: Iterable[bytes]) -> bool:
    for word in words:
        if not (word.isalpha() and (word.islower() or word.istitle())):
            name = word.strip(_EDGES)
            if LEAST <= len(name) <= MOST and name.isascii() and not _is_plain(name.replace(b"-", b"")):
                return True
    return False


def mentions(text: str) -> list[tuple[int, int]]:
    """Where each name of a text stands first, from its start to its stop in characters."""
    found, start = [], 0
    for name in dict.fromkeys(names_among(dict.fromkeys(words(text))).values()):
        start = text.find(name, start)  # words come in the order of their first places
        found.append((start, start + len(name)))
    return found


def place(text: str, name: str) -> tuple[int, int]:
    """Where a name that a text has stands first; not inside a longer word, where it stands alone somewhere."""
    first = at = text.find(name)
    while at >= 0:
        stop = at + len(name)
        if not (text[at - 1 : at].isalnum() or text[stop : stop + 1].isalnum()):
            return at, stop
        at = text.find(name, stop)
    return first, first + len(name)


def _is_plain(word: bytes) -> bool:
    return word.isalpha() and (word.islower() or word.istitle())
