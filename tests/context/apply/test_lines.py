"""The lines of an extract, written again from places, with the same bytes."""

from __future__ import annotations

from array import array

import msgspec

from tests.context.plans import planned
from tests.support.messages import NAMED_RUN
from trimtab.context.apply.format import CHAT
from trimtab.context.apply.lines import extract, known_lines
from trimtab.context.edits import Excerpt
from trimtab.context.policy import Policy
from trimtab.context.read.memo import Memo
from trimtab.context.texts import EXTRACT
from trimtab.dialects.messages.writing import FORMAT as MESSAGES

VIEWS = Memo().views(NAMED_RUN)


def chosen(budget: int = 2_200) -> tuple[Excerpt, ...]:
    gap = planned(NAMED_RUN, Policy(), budget).gap
    assert gap is not None
    return gap.extract


def test_lines_of_an_extract_are_places_found_some_at_a_time() -> None:
    memo = Memo()
    of = chosen()
    expected = extract(NAMED_RUN, VIEWS, of, "", CHAT, None)
    assert expected.startswith(EXTRACT.encode())
    for _ in range(2 + len(of) // 24):
        assert known_lines(VIEWS, of, "", memo) is None
        assert extract(NAMED_RUN, VIEWS, of, "", CHAT, memo) == expected
    known = known_lines(VIEWS, of, "", memo)
    assert known is not None
    assert len([line for line in known if line.parts]) > len(known) * 0.9
    assert all(isinstance(places, array) for line in known for _, places in line.parts)
    assert extract(NAMED_RUN, VIEWS, of, "", CHAT, memo) == expected


def test_an_extract_beside_another_summary_is_another() -> None:
    memo = Memo()
    of = chosen()
    for _ in range(3):
        for summary in ("", "It was module_1.", "def function_1 and table_1"):
            written = extract(NAMED_RUN, VIEWS, of, summary, CHAT, memo)
            assert written == extract(NAMED_RUN, VIEWS, of, summary, CHAT, None)


def test_a_line_that_stays_is_not_read_again() -> None:
    memo, of = Memo(), chosen()
    for _ in range(3 + len(of) // 24):
        extract(NAMED_RUN, VIEWS, of, "", CHAT, memo)
    unreadable = msgspec.structs.replace(CHAT, as_chat=None)
    fewer = of[len(of) // 2 :]
    assert extract(NAMED_RUN, VIEWS, fewer, "", unreadable, memo) == extract(NAMED_RUN, VIEWS, fewer, "", CHAT, None)


def test_nothing_to_extract() -> None:
    assert extract(NAMED_RUN, VIEWS, (), "", CHAT, Memo()) == b""


def test_a_mark_for_the_cache_moves_no_line_of_an_extract() -> None:
    plain = [msgspec.json.encode(msgspec.json.decode(raw)) for raw in NAMED_RUN]
    first = [raw.replace(b"{", b'{"cache_control":{"type":"ephemeral"},', 1) for raw in plain]
    for one, other in ((plain, first), (first, plain)):
        memo = Memo(view=MESSAGES.view, digest=MESSAGES.digest)
        of, marked = chosen(), msgspec.structs.replace(CHAT, canonical=MESSAGES.canonical)
        expected = extract(NAMED_RUN, VIEWS, of, "", CHAT, None)
        for raws in [*[one] * (3 + len(of) // 24), other]:
            assert extract(raws, VIEWS, of, "", marked, memo) == expected
