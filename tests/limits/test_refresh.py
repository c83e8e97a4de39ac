"""Tables made from LiteLLM's file, from its trimmed form and from our own."""

import json

import pytest

from trimtab.limits.refresh import refresh_table
from trimtab.limits.table import Entry, Table

LITELLM = {
    "sample_spec": {"max_input_tokens": 1000, "mode": "chat"},
    "gpt-x": {
        "max_input_tokens": 272000,
        "max_output_tokens": 128000,
        "input_cost_per_token": 1.25e-06,
        "output_cost_per_token": 1e-05,
        "cache_read_input_token_cost": 1.25e-07,
        "mode": "chat",
    },
    "plain": {"max_input_tokens": "32768", "max_output_tokens": 4096.0, "mode": "completion"},
    "legacy": {"max_tokens": 4096},
    "embedder": {"max_input_tokens": 8192, "mode": "embedding"},
    "painter": {"mode": "chat"},
    "absurd": {"max_input_tokens": 1e300, "mode": "chat"},
    "negative": {"max_input_tokens": -1, "mode": "chat"},
    "words": {"max_input_tokens": "many", "mode": "chat"},
    "not a table": 7,
}


def entries(data: bytes) -> dict[str, Entry]:
    return {entry.name: entry for entry in Table(data).entries()}


def test_litellms_file_becomes_a_table() -> None:
    dated = json.dumps({"date": "2026-02-03", "models": LITELLM}).encode()
    table = refresh_table(dated)
    assert entries(table) == {
        "gpt-x": Entry("gpt-x", 400_000, 128_000, 272_000, 1.25, 10.0, 0.125),
        "legacy": Entry("legacy", 4_096),
        "plain": Entry("plain", 32_768, 4_096),
    }
    assert Table(table).origin.date == "2026-02-03"
    assert "litellm" in Table(table).origin.source


def test_the_trimmed_form_keeps_its_source_and_prices() -> None:
    trimmed = {
        "source": "somewhere",
        "models": {"m": {"max_input_tokens": 8000, "input": 2.0, "cache_read": 0.2, "provider": "p"}},
    }
    table = refresh_table(json.dumps(trimmed).encode())
    assert entries(table) == {"m": Entry("m", 8_000, input=2.0, cache_read=0.2)}
    assert Table(table).origin.source == "somewhere"
    assert Table(table).origin.date[:2] == "20"


def test_our_own_form_comes_out_as_it_went_in() -> None:
    table = refresh_table(json.dumps({"source": "s", "date": "2026-02-03", "models": LITELLM}).encode())
    assert refresh_table(table) == table
    assert json.loads(table)["date"] == "2026-02-03"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<html>",
        b"[]",
        b"{}",
        b'{"models": 3}',
        b'{"a": {"mode": "chat"}}',
        b'{"models":{\n"a":[1,2]\n}}',
    ],
)
def test_what_holds_no_model_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a model table"):
        refresh_table(data)
