"""The small modules of the extract: names, spans, one result, and the text made of excerpts."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.messages import assistant, calls, result, user
from trimtab.context.edits import Excerpt
from trimtab.context.estimate.tokens import text_tokens
from trimtab.context.extract.names import has_name, mentions, names_among, words
from trimtab.context.extract.parts import Opened
from trimtab.context.extract.render import render
from trimtab.context.extract.result import of_result
from trimtab.context.extract.spans import add, around, covers
from trimtab.context.texts import EXTRACT

LOG = "Build 4711 failed: src/app.py line 88, see job_id a1b2c3d4 and mailto ops@example.org for more details please. "


def names(text: str) -> list[str]:
    return [text[start:stop] for start, stop in mentions(text)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("read src/app.py, then Stop.", ["src/app.py"]),
        ("call parseArgs or parse_args", ["parseArgs", "parse_args"]),
        ("order HAT123 of 2024-05-28", ["HAT123", "2024-05-28"]),
        ("a well-known plain sentence, Nothing Else", []),
        ("x1 a.b", []),
        ("東京 and café", []),
        ("one_name and one_name", ["one_name"]),
    ],
)
def test_names_are_what_nobody_can_guess(text: str, found: list[str]) -> None:
    assert names(text) == found


@given(st.text())
def test_any_text_has_names_where_it_says_so(text: str) -> None:
    for name in names(text):
        assert name in text


def test_a_span_has_whole_words_and_stays_in_its_line() -> None:
    text = "alpha beta gamma delta src/app.py epsilon zeta eta theta iota"
    start = text.index("src")
    first, last = around(text, start, start + 10, 12)
    assert text[first:last] == "delta src/app.py epsilon"
    text = "a line before\nand this is where src/app.py stands"
    start = text.index("src")
    first, _ = around(text, start, start + 10, 40)
    assert text[first:].startswith("and this")


def test_spans_that_touch_become_one() -> None:
    spans = [(0, 10)]
    assert add(spans, (50, 60)) == 10
    assert add(spans, (15, 30)) == 20
    assert spans == [(0, 30), (50, 60)]
    assert add(spans, (28, 45)) == 20
    assert spans == [(0, 60)]
    assert add(spans, (5, 20)) == 0
    spans = [(0, 30), (50, 60)]
    assert covers(spans, 20, 30)
    assert not covers(spans, 25, 52)


@given(st.text(max_size=3_000) | st.integers(1, 40).map(lambda n: LOG * n), st.integers(0, 100))
def test_the_extract_of_a_result_stays_within_its_tokens(text: str, tokens: int) -> None:
    assert text_tokens(of_result(text, tokens).shown) <= max(tokens, 0)


def test_the_extract_of_a_result_is_how_it_begins() -> None:
    assert of_result(LOG, 16).shown == "Build 4711 failed: src/app.py line 88, …"
    assert of_result("see\n  job_id", 16).shown == "see job_id"


def test_of_a_result_that_names_nothing_there_is_no_extract() -> None:
    assert of_result("the quick brown fox " * 50, 60).shown == ""


def test_an_extract_is_a_line_for_each_source() -> None:
    raws = [
        user("Use tabs."),
        calls("a", arguments=json.dumps({"path": "src/app.py"})),
        result("a", LOG),
        assistant("x"),
    ]
    excerpts = [
        Excerpt(0, 0, 0, 9),
        Excerpt(1, 1, 0, 16, (1, 1)),
        Excerpt(2, 0, 0, 10, (1, 1)),
        Excerpt(2, 0, 11, 17, (1, 1)),
    ]
    assert render(Opened(raws), excerpts).splitlines() == [
        EXTRACT,
        "user: Use tabs.",
        "read_file(src/app.py) with: path: src/app.py",
        "read_file(src/app.py) -> Build 4711 … failed",
    ]


def test_no_excerpts_no_text() -> None:
    assert render(Opened([user()]), []) == ""


def test_what_the_summary_names_is_left_out() -> None:
    raws = [user("Build 4711 and src/app.py"), assistant("Use tabs.")]
    excerpts = [Excerpt(0, 0, 0, 10), Excerpt(0, 0, 15, 25), Excerpt(1, 0, 0, 9)]
    text = render(Opened(raws), excerpts, "Build 4711 failed.")
    assert text.splitlines()[1:] == ["user: src/app.py", "assistant: Use tabs."]


@given(st.text())
def test_a_text_has_a_name_or_none(text: str) -> None:
    assert has_name(text) == bool(names_among(words(text)))
