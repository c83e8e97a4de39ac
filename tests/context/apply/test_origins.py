"""Origins say where every byte of what was written comes from, and hold no text."""

from __future__ import annotations

import json
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.messages import calls, prose, result
from trimtab.context.apply.format import CHAT
from trimtab.context.apply.origins import OURS, in_json, moved, origins_of, pairs, quickly, slices, written_again
from trimtab.context.texts import CLEARED_TO_EXTRACT, PLACEHOLDER

LOG = "src/app.py line 88 of build_4711 failed:\n\n    return 'a\\b'\tand café 東京 0x7f3a " + prose(300)


def compact(raw: bytes) -> bytes:
    """As most clients write JSON."""
    return msgspec.json.encode(msgspec.json.decode(raw))


def spaced(raw: bytes) -> bytes:
    """As Python writes JSON."""
    return json.dumps(json.loads(raw)).encode()


EDITS = [("cleared", 80), ("cleared", 0), ("truncated", 200), ("squeezed", 220), ("inputs_cleared", 0)]


@pytest.mark.parametrize("stage", EDITS, ids=str)
@pytest.mark.parametrize("form", [compact, spaced])
def test_what_is_written_again_is_the_same(stage: tuple[str, int], form: Callable[[bytes], bytes]) -> None:
    of_calls = stage[0] == "inputs_cleared"
    source = form(calls("a") if of_calls else result("a", LOG))
    written = CHAT.rewrite(source, *stage)  # type: ignore[arg-type]
    found = origins_of(written, source)
    assert found is not None
    assert written_again(found, source) == written
    if form is compact and not of_calls:
        assert written_again(quickly(written, source) or found, source) == written
        assert quickly(written, source) is not None


def test_an_excerpt_is_a_place_of_the_source() -> None:
    source = compact(result("a", LOG))
    found = quickly(CHAT.rewrite(source, "cleared", 80), source)
    assert found is not None
    assert len([*pairs(found)]) == 5
    kept = slices(found, source)[2]
    assert kept.startswith(b"src/app.py line 88 of build_4711 failed: return 'a\\\\b' and caf")
    assert kept != source[-1 - found[4] : found[5]]


def test_characters_that_were_escaped_are_written_as_they_are() -> None:
    source = spaced(result("a", "données of café in app.py " * 40))
    written = CHAT.rewrite(source, "cleared", 40)
    found = origins_of(written, source)
    assert "données".encode() in written
    assert found is not None
    assert written_again(found, source) == written


def test_what_stands_nowhere_has_no_origins() -> None:
    assert origins_of(b'{"a":"never sent"}', b'{"a":"received"}') is None
    assert quickly(b'{"a":"never sent"}', b'{"a":"received"}') is None
    other = CHAT.rewrite(result("a", "quite_another text " * 30), "cleared", 40)
    assert quickly(other, result("a", "src/app.py is here " * 30)) is None


def test_words_of_ours_are_texts_and_signs() -> None:
    """Nothing that a client wrote is kept: each piece is a place, or one of these."""
    words = {text.decode() for text in OURS}
    assert PLACEHOLDER in words
    assert not any(text.isalnum() for text in words - {"user", "assistant", "tool", "with"})


def test_pieces_can_be_moved_into_what_the_source_is_a_part_of() -> None:
    source = compact(result("a", LOG.replace("café 東京", "").replace("\\b", "b")))
    written = CHAT.rewrite(source, "cleared", 80)
    found = quickly(written, source)
    assert found is not None
    whole = b"[" + source + b"]"
    pieces = [*moved(found, source, 1)]
    made = b"".join([whole[start:stop] if stop >= 0 else OURS[start] for start, stop in pieces])
    assert made == written  # divided where white space was, so each piece is cut out as it is
    assert CLEARED_TO_EXTRACT.encode() in made


_texts = st.text(st.characters(codec="utf-8"), min_size=0, max_size=400)


@given(_texts, _texts, st.sampled_from(EDITS), st.booleans())
def test_whatever_is_found_is_right(text: str, other: str, edit: tuple[str, int], is_spaced: bool) -> None:
    source = msgspec.json.encode({"role": "tool", "tool_call_id": other[:8], "content": text})
    source = spaced(source) if is_spaced else source
    written = CHAT.rewrite(source, *edit)  # type: ignore[arg-type]
    for found in (quickly(written, source), origins_of(written, source)):
        if found is not None:
            assert written_again(found, source) == written
            whole = other.encode() + source
            pieces = moved(found, source, len(other.encode()))
            assert b"".join(slices(type(found)("i", [n for piece in pieces for n in piece]), whole)) == written


def test_characters_that_begin_alike_are_told_apart() -> None:
    """The second is written as it is, and stands in the source as an escape only."""
    written, source = in_json("one “ three"), b'{"content":"one \xe2\x80\x9d two \\u201c three"}'
    found = origins_of(written, source)
    assert found is not None
    assert written_again(found, source) == written


def test_what_cannot_be_read_has_no_origins() -> None:
    """Bytes within a character, which the source has nowhere; nothing is raised."""
    assert origins_of(b'{"a":"\x9c"}', b'{"a":"b"}') is None
    assert quickly(b'{"a":"' + PLACEHOLDER.encode() + b'\xe2"}', b'{"a":"b"}') is None
