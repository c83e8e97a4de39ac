"""How limits look: what is not known is not shown, what is a guess is called one."""

from __future__ import annotations

import json

import click
import pytest

from trimtab.cli.models_tables import configured, entries, one
from trimtab.limits import DEFAULT, Limit, Prices, Table
from trimtab.settings import parse

FULL = Limit(
    context_size=128_000,
    max_output_tokens=16_384,
    max_input_tokens=120_000,
    budget=100_000,
    source="configured",
    detail='models."m"',
    prices=Prices(input=2.5, output=10.0, cache_read=0.125),
)


def shown(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().out.split())


def test_one_model_with_all_there_is_to_say(capsys: pytest.CaptureFixture[str]) -> None:
    one("m", FULL, as_json=False)
    said = shown(capsys)
    assert "context window 128,000 tokens" in said
    assert "most input 120,000 tokens" in said
    assert "operator's budget 100,000 tokens" in said
    assert "usable for input 100,000 tokens" in said
    assert "input $2.5, output $10, cached $0.125 a million" in said
    assert 'source configured: models."m"' in said
    assert "guess" not in said


def test_one_nobody_knows_is_a_guess_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    one("\x1b[31mwho", DEFAULT, as_json=False)
    said = capsys.readouterr().out
    assert "A guess" in said
    assert "prices" not in said
    assert "\x1b" not in said


def test_as_json_it_is_the_value(capsys: pytest.CaptureFixture[str]) -> None:
    one("m", FULL, as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert (told["model"], told["usable"], told["prices"]["output"]) == ("m", 100_000, 10.0)


@pytest.mark.parametrize("toml", ["", "[models.'a*']\ncontext_size = 5000\nprices = { output = 1.0 }\n"])
def test_what_is_configured_stands_above_the_tables_origin(toml: str, capsys: pytest.CaptureFixture[str]) -> None:
    table = Table.load(None)
    configured(parse(toml, {}), table, as_json=False)
    said = shown(capsys)
    assert ("a* 5,000 output $1 a million" in said) is bool(toml)
    assert ("names no model" in said) is not bool(toml)
    assert f"{table.origin.models:,} models of {table.origin.date}" in said


def test_a_search_that_finds_nothing_says_what_to_try(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(click.ClickException, match=r"--search '\*part\*of\*name\*'"):
        entries([], "zzz*", as_json=False)
    entries([], "zzz*", as_json=True)
    assert json.loads(capsys.readouterr().out) == []
