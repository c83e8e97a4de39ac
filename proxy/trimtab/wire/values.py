"""How many values a JSON text has, without building any of them.

A list of a million numbers takes two megabytes as text, a thousandth of that in gzip, and half a second and hundreds
of megabytes once it is decoded. Every value but the first stands behind a comma, a colon or an opening bracket, so
those that stand outside strings are counted: at the speed of memory, and no further than to the bound.

A long conversation has many values too, but they are fields of its messages: an object of n fields has n colons and one
comma less. So the entries of its lists are what is left when colons are taken from commas.
"""

from __future__ import annotations

from collections.abc import Iterator

SEARCHED = 4 << 20
"""Bytes looked through in one go: one call over 60 MB would keep other threads waiting for 80 ms."""

_SLICE = 64 << 10  # bytes looked at in one go: at worst they are as many quotes

_OTHERS = bytes(set(range(256)) - set(b",:["))


def has_more_values(body: bytes, most: int, start: int = 0) -> bool:
    """True when a JSON text has more than about `most` values from byte `start` on, which lies outside strings; names
    of fields count too. For other texts any answer.

    A text too short for them costs nothing. Strings may hold as many commas as they like.
    """
    if not _may_have_more(body, most, start):
        return False
    found = 0
    for outside in _outside_strings(body, start):
        found += _signs(outside)
        if found > most:
            return True
    return False


def has_more_entries(body: bytes, most: int, most_fields: int, start: int = 0) -> bool:
    """True when the lists of a JSON text have more than about `most` entries from byte `start` on, or its objects more
    than `most_fields` fields; otherwise as `has_more_values`."""
    if not _may_have_more(body, most, start):
        return False
    entries = fields = 0
    for outside in _outside_strings(body, start):
        named = outside.count(b":")
        fields += named
        entries += outside.count(b",") - named + outside.count(b"{") + outside.count(b"[")
        if fields > most_fields or entries > most + 1:  # the slice may end behind a comma, before its colon
            return True
    return entries > most


def _outside_strings(body: bytes, start: int) -> Iterator[bytes]:
    """What of a JSON text stands outside strings, piece by piece."""
    in_string, at = 0, start
    while at < len(body):
        end = _end_of_slice(body, at + _SLICE)
        parts = body[at:end].replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        yield b"".join(parts[in_string::2])
        in_string = (in_string + len(parts) - 1) % 2
        at = end


def _may_have_more(body: bytes, most: int, start: int) -> bool:
    """False for most bodies: they are too short, or also with what is in strings there are not enough signs."""
    if 2 * (len(body) - start) <= 3 * most:  # nothing is shorter for what it counts than `[],`, which counts twice
        return False
    found = 0
    for at in range(start, len(body), _SLICE):
        found += _signs(body[at : at + _SLICE])
        if found > most:
            return True
    return False


def _signs(text: bytes) -> int:
    return len(text.translate(None, _OTHERS))  # one pass, in less than half the time of three counts


def _end_of_slice(body: bytes, end: int) -> int:
    """`end`, moved forward so that it does not stand between a backslash and what it escapes."""
    backslashes = 0
    while backslashes < min(end, _SLICE) and body[end - 1 - backslashes : end - backslashes] == b"\\":
        backslashes += 1
    return end + backslashes % 2


def holds(body: bytes, word: bytes, start: int = 0) -> bool:
    """True when `word` occurs in a body from byte `start` on. Lets other threads run in between."""
    if len(body) - start <= SEARCHED:
        return body.find(word, start) >= 0
    reach = SEARCHED + len(word) - 1
    return any(body.find(word, at, at + reach) >= 0 for at in range(start, len(body), SEARCHED))


def has_more_of(body: bytes, sign: bytes, most: int, start: int = 0) -> bool:
    """True when a sign, one byte, occurs more than `most` times from byte `start` on."""
    found = 0
    for at in range(start, len(body) if len(body) - start > most else start, SEARCHED):
        found += body.count(sign, at, at + SEARCHED)
        if found > most:
            return True
    return False
