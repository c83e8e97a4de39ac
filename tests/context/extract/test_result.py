"""The extract of a cleared result is the same whether its end is remembered or found."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trimtab.context.extract import result
from trimtab.context.extract.result import of_result

WORDS = st.sampled_from(
    ["src/app.py", "ERROR", "line 12", "the", "\n", "  ", "parse_config()", "\ud83d\ude00", "\ud800", "Ж"]
)
TEXTS = st.lists(WORDS, max_size=120).map(" ".join)


def found(text: str, tokens: int) -> str:
    result._ENDS.clear()
    return of_result(text, tokens)


@given(TEXTS, TEXTS, st.sampled_from([0, 1, 12, 40, 80]))
def test_a_remembered_end_gives_the_same_extract(text: str, more: str, tokens: int) -> None:
    texts = [text, text + more, text]
    expected = [found(each, tokens) for each in texts]
    result._ENDS.clear()
    assert [of_result(each, tokens) for each in texts] == expected
