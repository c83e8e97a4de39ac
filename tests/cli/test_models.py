"""`trimtab models`: figures with their source; what is unknown is not shown, and a guess is called one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest

from tests.cli.commands import run
from trimtab.cli.models import show_configured, show_entries, show_model
from trimtab.limits import DEFAULT, Limit, Prices, Table
from trimtab.settings import parse


def asked(*arguments: str) -> Any:
    done = run("models", *arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "trimtab.toml"
    path.write_text(
        "[models.'house-*']\ncontext_size = 64000\nbudget = 20000\nprices = { input = 3.0 }\n"
        f"[limits]\ntable = '{tmp_path}/table.json'\n"
    )
    return path


@pytest.mark.parametrize(
    ("name", "size", "source"),
    [("gpt-4o", 128_000, "bundled"), ("openai/gpt-4o-2024-08-06", 128_000, "bundled"), ("no-such", 128_000, "default")],
)
def test_a_model_comes_with_its_window_and_source(name: str, size: int, source: str) -> None:
    found = asked(name)
    assert (found["context_size"], found["source"]) == (size, source)
    printed = run("models", name).output
    assert f"{size:,} tokens" in printed
    assert source in printed


def test_a_guess_is_called_one() -> None:
    assert "A guess" in run("models", "no-such").output
    assert "A guess" not in run("models", "gpt-4o").output


def test_without_a_name_the_configuration_and_the_table_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "trimtab.toml"
    path.write_text("[models.'house-*']\ncontext_size = 64000\nbudget = 20000\nprices = { input = 3.0 }\n")
    printed = run("models", "--config", str(path)).output
    for word in ("house-*", "64,000", "20,000", "$3", "models of 20", "the table in the package"):
        assert word in printed
    found = asked("--config", str(path))
    assert found["models"]["house-*"]["budget"] == 20_000
    assert found["table"]["models"] > 1000
    assert asked("house-7b", "--config", str(path))["usable"] == 20_000


@pytest.mark.parametrize("glob", ["gpt-4o*", "GPT-4O", "gpt-4o-mini"])
def test_search_finds_by_glob_or_by_part_of_the_name(glob: str) -> None:
    names = [entry["name"] for entry in asked("--search", glob)]
    assert "gpt-4o-mini" in names
    assert all("gpt-4o" in name.lower() for name in names)


def test_search_that_finds_nothing_fails_and_says_how_to() -> None:
    done = run("models", "--search", "zzz*")
    assert done.exit_code == 1
    assert "No model in the table matches" in done.output


def test_a_configured_table_that_is_missing_says_what_to_do(config: Path) -> None:
    done = run("models", "gpt-4o", "--config", str(config))
    assert "trimtab models --refresh" in str(done.exception)


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


def test_one_model_with_every_figure(capsys: pytest.CaptureFixture[str]) -> None:
    show_model("m", FULL, as_json=False)
    printed = shown(capsys)
    assert "context window 128,000 tokens" in printed
    assert "largest input 120,000 tokens" in printed
    assert "operator's budget 100,000 tokens" in printed
    assert "usable for input 100,000 tokens" in printed
    assert "input $2.5, output $10, cached $0.125 per million tokens" in printed
    assert 'source configured: models."m"' in printed
    assert "guess" not in printed


def test_one_nobody_knows_is_a_guess_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    show_model("\x1b[31mwho", DEFAULT, as_json=False)
    printed = capsys.readouterr().out
    assert "A guess" in printed
    assert "prices" not in printed
    assert "\x1b" not in printed


def test_as_json_it_is_the_value(capsys: pytest.CaptureFixture[str]) -> None:
    show_model("m", FULL, as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert (found["model"], found["usable"], found["prices"]["output"]) == ("m", 100_000, 10.0)


@pytest.mark.parametrize("toml", ["", "[models.'a*']\ncontext_size = 5000\nprices = { output = 1.0 }\n"])
def test_what_is_configured_stands_above_the_tables_origin(toml: str, capsys: pytest.CaptureFixture[str]) -> None:
    table = Table.load(None)
    show_configured(parse(toml, {}), table, as_json=False)
    printed = shown(capsys)
    assert ("a* 5,000 output $1 per million tokens" in printed) is bool(toml)
    assert ("No model is configured" in printed) is not bool(toml)
    assert f"{table.origin.models:,} models of {table.origin.date}" in printed


def test_a_search_that_finds_nothing_says_what_to_try(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(click.ClickException, match=r"--search '\*part\*of\*name\*'"):
        show_entries([], "zzz*", as_json=False)
    show_entries([], "zzz*", as_json=True)
    assert json.loads(capsys.readouterr().out) == []
