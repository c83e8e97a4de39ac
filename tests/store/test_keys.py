"""Two different things never have the same key."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.store.keys import PREFIX, factor_key, fields_digest, lesson_key, lock_key, pause_key, summary_key

SAME = {"tenant_id": b"t", "model": "m", "prompt_version": "p", "policy": "2000", "chain": b"c"}


@pytest.mark.parametrize("field", SAME)
def test_every_field_is_in_the_name(field: str) -> None:
    other = {**SAME, field: SAME[field] * 2}  # type: ignore[operator]
    assert summary_key(**other) != summary_key(**SAME)  # type: ignore[arg-type]


def test_the_name_is_versioned_and_stable() -> None:
    assert summary_key(**SAME) == summary_key(**SAME)  # type: ignore[arg-type]
    assert summary_key(**SAME).startswith("trimtab:v1:s:")  # type: ignore[arg-type]


def test_a_value_its_lock_and_its_pause_have_three_names() -> None:
    key = summary_key(**SAME)  # type: ignore[arg-type]
    names = {key, lock_key(key), pause_key(key)}
    assert len(names) == 3
    assert all(name.startswith(PREFIX) for name in names)


def test_pairs_of_upstream_and_model_have_keys_of_their_own() -> None:
    pairs = [("a", "bc"), ("ab", "c"), ("a", "\ud800")]
    keys = {key(*pair) for key in (factor_key, lesson_key) for pair in pairs}
    assert len(keys) == 6
    assert all(key.startswith(PREFIX) for key in keys)
    assert len(factor_key("u", "x" * 10**6)) < 80


@given(st.lists(st.binary(max_size=20)), st.lists(st.binary(max_size=20)))
def test_no_two_lists_of_fields_run_together(one: list[bytes], other: list[bytes]) -> None:
    assert (fields_digest(*one) == fields_digest(*other)) == (one == other)


@given(st.binary(), st.integers(0, 100))
def test_a_field_cut_elsewhere_is_another_digest(text: bytes, at: int) -> None:
    assert fields_digest(text[:at], text[at:]) != fields_digest(text)
