"""What may stand in `[redis]` and `[compaction]`, and what may not."""

from __future__ import annotations

import msgspec
import pytest

from trimtab.store.settings import RedisSettings
from trimtab.summaries.settings import CompactionSettings


def test_the_documented_tables_are_taken() -> None:
    text = b"""
    [redis]
    url = "redis://localhost:6379/0"
    [compaction]
    model = "same"
    max_summary_tokens = 2000
    precompact_share = 0.8
    summary_wait_s = 20.0
    """
    tables = msgspec.toml.decode(text)
    assert msgspec.convert(tables["redis"], RedisSettings).timeout_ms == 50
    assert msgspec.convert(tables["compaction"], CompactionSettings) == CompactionSettings()


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


def test_no_password_and_no_secret_shows() -> None:
    shown = repr(RedisSettings(url="redis://u:hidden@h")) + repr(CompactionSettings(secret="hidden"))
    assert "hidden" not in shown
