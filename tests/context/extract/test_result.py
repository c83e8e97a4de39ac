"""The extract of a cleared result: how much of its beginning is kept, and what that weighs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trimtab.context.estimate.tokens import SCALE, text_tokens, weight
from trimtab.context.extract.result import of_result, read_of

WORDS = st.sampled_from(
    ["src/app.py", "ERROR", "line 12", "the", "\n", "  ", "parse_config()", "\ud83d\ude00", "\ud800", "Ж"]
)
TEXTS = st.lists(WORDS, max_size=120).map(" ".join)
TOKENS = st.sampled_from([0, 1, 12, 40, 80])


@given(TEXTS, TEXTS, TOKENS)
def test_what_comes_later_makes_no_difference(text: str, more: str, tokens: int) -> None:
    read = (text + more)[: read_of(tokens)]
    assert of_result(read, tokens) == of_result(read + more, tokens) or len(read) < read_of(tokens)


@given(TEXTS, TOKENS)
def test_it_weighs_what_is_shown(text: str, tokens: int) -> None:
    found = of_result(text, tokens)
    assert found.weight == (weight(found.shown.encode("utf-8", "surrogatepass")) if found.end else 0)
    assert text_tokens(found.shown) <= tokens
    if found.end:
        assert text_tokens(found.shown) == 1 + found.weight // SCALE
