"""What may stand in `[compaction]`, and what may not."""

from __future__ import annotations

import msgspec
import pytest

from trimtab.summaries.settings import CompactionSettings


def test_the_documented_table_is_taken() -> None:
    text = b"""
    [compaction]
    model = "same"
    max_summary_tokens = 2000
    precompact_share = 0.8
    summary_wait_s = 20.0
    """
    table = msgspec.toml.decode(text)["compaction"]
    assert msgspec.convert(table, CompactionSettings) == CompactionSettings()


@pytest.mark.parametrize(
    "wrong",
    [
        {"modell": "x"},
        {"max_summary_tokens": 0},
        {"precompact_share": 1.5},
        {"summary_wait_s": "long"},
        {"max_background": -1},
    ],
)
def test_what_is_wrong_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, CompactionSettings)


def test_no_secret_shows() -> None:
    assert "hidden" not in repr(CompactionSettings(secret="hidden"))
