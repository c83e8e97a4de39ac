"""Where the bytes of what is written come from: places in the message received, and words of ours between them.

A message that was rewritten is rewritten again at every request of its conversation. Its origins are enough to do that
without reading it: numbers that name places in its bytes, and signs of JSON and the words of `texts`, which are never
a client's. So they may be kept from one request to the next, and no text is.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from trimtab.context.extract.parts import one_line
from trimtab.context.texts import (
    ANNOUNCEMENT,
    CLEARED_TO_EXTRACT,
    EXTRACT,
    JSON_WORD,
    LEFT_OUT,
    NEWER_LATER_TEXT,
    NOTE,
    PLACEHOLDER,
    REMOVED,
    SAME_LATER_TEXT,
    SOURCES,
    TRUNCATED,
)
from trimtab.wire.messages import USER_END, USER_START

Piece = tuple[int, int]
"""Bytes of the source from a start to a stop. (n, -1): the n-th of `OURS`. (-1 - start, stop): the text that stands in
this place of a JSON string, with its white space as single blanks and as few escapes as JSON needs."""
Origins: TypeAlias = "array[int]"
"""The pieces of something written, one after the other, two numbers each."""
NOWHERE: Origins = array("i")
"""Those of what cannot be found."""


_encode = msgspec.json.Encoder().encode
_text = msgspec.json.Decoder(str).decode


def in_json(text: str) -> bytes:
    """A text as it stands between the quotes of a JSON string."""
    return _encode(text)[1:-1]


_WORDS = re.compile(rb'\) with: |\) -> |: |[^ ,:"\\{}\[\]()]+|\\?.', re.DOTALL)
_CUT = (f"\n{TRUNCATED}\n", f"\n{TRUNCATED}", TRUNCATED)
_TEXTS = (
    *map(in_json, (f"{CLEARED_TO_EXTRACT}\n", PLACEHOLDER, SAME_LATER_TEXT, NEWER_LATER_TEXT)),
    *map(in_json, (*_CUT, *REMOVED.values())),
    *map(in_json, (NOTE, EXTRACT, ANNOUNCEMENT, ANNOUNCEMENT.strip(), JSON_WORD)),
)
_LEFT_OUT = in_json(LEFT_OUT.rstrip())
_SIGNS = tuple(bytes([code]) for code in range(32, 127) if not chr(code).isalnum())
OURS: tuple[bytes, ...] = (
    *_TEXTS,
    _LEFT_OUT,
    *dict.fromkeys(_WORDS.findall(in_json("\n".join([LEFT_OUT, *[f"){source} " for source in SOURCES.values()]])))),
    USER_START,
    USER_END,
    *_SIGNS,
)
"""All words that are not a client's: signs, and texts of ours as they stand in JSON."""

_NUMBER = {text: number for number, text in reversed([*enumerate(OURS)])}
_COMPARED = 1024  # bytes at once
_ENTRY = 16  # pieces that weigh as much as another entry of a memo
_in_string = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL).match  # up to the quote that ends it
# Words with one blank between them, or white space.
_RUN = re.compile(rb"((?:[^ \\]+|\\[^nrtf])+(?: (?:[^ \\]+|\\[^nrtf])+)*)|(?: |\\[nrtf])+")
_is_escaped = re.compile(rb"\\[/u]").search
_WITHIN = range(0x80, 0xC0)  # bytes of a character that are not its first
_TRIES = 4  # places looked at for the last word of an excerpt


def ours(text: bytes) -> Piece:
    """The piece that is one of `OURS`."""
    return _NUMBER[text], -1


_BLANK = ours(b" ")


def quickly(written: bytes, source: bytes) -> Origins | None:
    """The origins of a message that begins and ends as its source does, with one text of ours between them and the
    beginning of what stood there: what most edits leave, of most clients. None for any other. JSON both."""
    for text in _TEXTS:
        if (at := written.find(text)) >= 0:
            break
    else:
        return None
    if not source.startswith(written[:at]):
        return None
    rest, found = written[at + len(text) :], [0, at, *ours(text)]
    if not source.endswith(rest):
        stop = _end_of_string(rest)
        excerpt, rest = rest[:stop], rest[stop:]
        kept = excerpt.removesuffix(_LEFT_OUT)
        if not (source.endswith(rest) and (stop := _stop_of(kept, source, at))):
            return None
        found += [-1 - at, stop, *(ours(_LEFT_OUT) if kept != excerpt else ())]
    return _checked([*found, len(source) - len(rest), len(source)], written, source)


def _stop_of(kept: bytes, source: bytes, start: int) -> int:
    """Where the text that was `kept` on one line stops in its source, which has it from `start` on; 0 for nowhere."""
    words, last = _without_space(kept), kept[kept.rfind(b" ") + 1 :]
    stop = start + len(kept) - len(last)
    for _ in range(_TRIES):
        if (at := source.find(last, stop)) < 0:
            break
        stop = at + len(last)
        if _without_space(source[start:stop]) == words:
            return stop
    return 0


def _without_space(source: bytes) -> bytes:
    """A part of a JSON string without blanks, and without the escapes of other white space."""
    return source.replace(b" ", b"").replace(b"\\n", b"").replace(b"\\t", b"").replace(b"\\r", b"")


def origins_of(written: bytes, source: bytes) -> Origins | None:
    """The origins of anything written from a source; None where a part of it is neither in the source nor ours. JSON
    both. Costs some times as much as writing it."""
    try:
        numbers = _pieces(written, source)
    except UnicodeDecodeError:
        return None
    return None if numbers is None else _checked(numbers, written, source)


def _checked(numbers: list[int], written: bytes, source: bytes) -> Origins | None:
    """The origins, where they give what was written: else they would fail at every request from now on."""
    origins = array("i", numbers)
    try:
        return origins if written_again(origins, source) == written else None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def written_again(origins: Origins, source: bytes) -> bytes:
    """What was written from a source, made from one with the same bytes."""
    return b"".join(slices(origins, source))


def slices(origins: Origins, source: bytes) -> list[bytes | memoryview]:
    """The bytes of each piece; those of the source where they lie, so that they are copied once."""
    view = memoryview(source)
    return [
        OURS[start] if stop < 0 else view[start:stop] if start >= 0 else _on_one_line(source[-1 - start : stop])
        for start, stop in pairs(origins)
    ]


def weight(origins: Origins) -> int:
    """How many entries of a memo they weigh as much as, beyond the first."""
    return len(origins) // (2 * _ENTRY)


def pairs(origins: Origins) -> Iterator[Piece]:
    """The pieces."""
    numbers = iter(origins)
    return zip(numbers, numbers, strict=True)


def moved(origins: Origins, source: bytes, by: int) -> Iterator[Piece]:
    """The pieces in a source of which this one is a part, from byte `by` on. Places that are to stand on one line are
    divided into what stands there, where that can be done."""
    for start, stop in pairs(origins):
        if stop < 0:
            yield start, stop
        elif start >= 0:
            yield start + by, stop + by
        else:
            yield from _divided(source, -1 - start, stop, by)


def _divided(source: bytes, start: int, stop: int, by: int) -> Iterator[Piece]:
    place = source[start:stop]
    runs = [run.span() for run in _RUN.finditer(place) if run[1]]
    # There is other white space beyond ASCII, and some escapes are written as characters.
    is_plain = place.isascii() and not _is_escaped(place)
    if not is_plain and b" ".join([place[first:last] for first, last in runs]) != _on_one_line(place):
        yield -1 - start - by, stop + by
        return
    for n, (first, last) in enumerate(runs):
        if n:
            yield _BLANK
        yield first + start + by, last + start + by


def _on_one_line(source: bytes) -> bytes:
    return in_json(one_line(_text(b'"%b"' % source)))


def _pieces(written: bytes, source: bytes) -> list[int] | None:
    """The pieces; None where one cannot be found. Each is as long as it can be; most follow the one before."""
    found: list[int] = []
    at = 0  # where the last one stops in the source
    for part in _parted(written):
        if (number := _NUMBER.get(part)) is not None:
            found += (number, -1)
            continue
        done, end = 0, len(part)
        while done < end:
            token = _token(part, done)
            if not source.startswith(token, at):
                if (number := _NUMBER.get(token)) is not None:
                    found += (number, -1)
                    done += len(token)
                    continue
                start, stop = _place(source, token, at)
                if stop < 0:
                    return None
                if start < 0:
                    found += (start, stop)
                    at, done = stop, done + len(token)
                    continue
                at = start
            length = _alike(part, done, source, at)
            while len(token) < length < end - done and part[done + length] in _WITHIN:
                length -= 1  # two characters may begin with the same bytes
            found += (at, at + length)
            at, done = at + length, done + length
    return found


def _token(part: bytes, at: int) -> bytes:
    found = _WORDS.match(part, at)
    return found[0] if found else part[at : at + 1]


def _place(source: bytes, token: bytes, at: int) -> Piece:
    """Where a word stands in a source: from `at` on, or anywhere, or with its characters escaped; (0, -1) for
    nowhere."""
    start = source.find(token, at)
    if start < 0:
        start = source.find(token)
    if start >= 0:
        return start, start + len(token)
    escaped = b"" if token.isascii() else json.dumps(token.decode())[1:-1].encode()
    start = source.find(escaped, at) if escaped else -1
    return (-1 - start, start + len(escaped)) if start >= 0 else (0, -1)


def _parted(written: bytes) -> list[bytes]:
    """What was written, with each of our texts as a part of its own."""
    parts = [written]
    for text in _TEXTS:
        if text in written:
            parts = [piece for part in parts for piece in _split(part, text)]
    return parts


def _split(part: bytes, text: bytes) -> list[bytes]:
    first, *others = part.split(text)
    return [first, *[piece for other in others for piece in (text, other)]]


def _end_of_string(rest: bytes) -> int:
    """Where the quote stands that ends the JSON string in which `rest` begins."""
    found = _in_string(rest)
    return found.end() if found else 0


def _alike(one: bytes, at: int, other: bytes, place: int) -> int:
    """How many bytes are the same in both from these places on: as numbers they differ from the first other byte."""
    most, alike = min(len(one) - at, len(other) - place), 0
    while alike < most:
        size = min(most - alike, _COMPARED)
        first, second = one[at + alike : at + alike + size], other[place + alike : place + alike + size]
        bits = (int.from_bytes(first) ^ int.from_bytes(second)).bit_length()
        alike += size - (bits + 7) // 8
        if bits:
            break
    return alike
