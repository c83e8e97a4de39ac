"""A name becomes a label only when it was admitted, and there is room for so many."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trimtab.telemetry.labels import OTHER, Labels


def test_unknown_names_share_one_label() -> None:
    labels = Labels(["gpt-4o"])
    assert [labels.label(name) for name in ("gpt-4o", "what-a-client-typed", "")] == ["gpt-4o", OTHER, OTHER]


def test_what_is_no_name_is_not_admitted() -> None:
    labels = Labels()
    assert [labels.admit(name) for name in ("", "x" * 129, "two\nlines", "llama3:8b")] == [False] * 3 + [True]


@given(st.lists(st.text()), st.integers(0, 5))
def test_never_more_than_the_bound(names: list[str], most: int) -> None:
    labels = Labels(names, most=most)
    assert len({labels.label(name) for name in names} - {OTHER}) <= most
