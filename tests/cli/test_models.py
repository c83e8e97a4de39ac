"""`trimtab models`: figures with their source, and a table that can be made anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import run, shell
from tests.support.scripted import ScriptedUpstream, json_reply, reply
from trimtab.limits import Table

LITELLM = {
    "gpt-9": {"mode": "chat", "max_input_tokens": 500_000, "max_output_tokens": 32_000, "input_cost_per_token": 2e-6},
    "picture-1": {"mode": "image_generation"},
}


def told(*arguments: str) -> Any:
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
    found = told(name)
    assert (found["context_size"], found["source"]) == (size, source)
    said = run("models", name).output
    assert f"{size:,} tokens" in said
    assert source in said


def test_a_guess_is_called_one() -> None:
    assert "A guess" in run("models", "no-such").output
    assert "A guess" not in run("models", "gpt-4o").output


def test_without_a_name_the_configuration_and_the_table_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "trimtab.toml"
    path.write_text("[models.'house-*']\ncontext_size = 64000\nbudget = 20000\nprices = { input = 3.0 }\n")
    said = run("models", "--config", str(path)).output
    for word in ("house-*", "64,000", "20,000", "$3", "models of 20", "ships with trimtab"):
        assert word in said
    found = told("--config", str(path))
    assert found["models"]["house-*"]["budget"] == 20_000
    assert found["table"]["models"] > 1000
    assert told("house-7b", "--config", str(path))["usable"] == 20_000


@pytest.mark.parametrize("glob", ["gpt-4o*", "GPT-4O", "gpt-4o-mini"])
def test_search_finds_by_glob_or_by_part_of_the_name(glob: str) -> None:
    names = [entry["name"] for entry in told("--search", glob)]
    assert "gpt-4o-mini" in names
    assert all("gpt-4o" in name.lower() for name in names)


def test_search_that_finds_nothing_fails_and_says_how_to() -> None:
    done = run("models", "--search", "zzz*")
    assert done.exit_code == 1
    assert "no model of the table matches" in done.output


def test_refresh_from_a_file_writes_the_table_the_configuration_names(tmp_path: Path, config: Path) -> None:
    (tmp_path / "litellm.json").write_text(json.dumps(LITELLM))
    done = run("models", "--refresh", str(tmp_path / "litellm.json"), "--config", str(config))
    assert done.exit_code == 0, done.output
    assert "1 models written" in done.output
    found = Table.load(tmp_path / "table.json").find("gpt-9")
    assert found is not None
    assert found.entry.context_size == 500_000
    assert told("gpt-9", "--config", str(config))["context_size"] == 500_000


def test_refresh_without_a_configured_place_goes_to_the_users_folder(tmp_path: Path) -> None:
    (tmp_path / "litellm.json").write_text(json.dumps(LITELLM))
    done = shell("models", "--refresh", str(tmp_path / "litellm.json"), HOME=str(tmp_path), XDG_DATA_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    written = next(path for path in tmp_path.rglob("model_limits.json"))
    assert f"table = '{written}'" in done.stdout


@pytest.mark.anyio
async def test_refresh_from_a_url(tmp_path: Path, config: Path) -> None:
    import anyio

    async with ScriptedUpstream(json_reply(LITELLM), reply(404)) as site:
        arguments = ("models", "--refresh", f"{site.origin}/models.json", "--config", str(config))
        done = await anyio.to_thread.run_sync(lambda: shell(*arguments, NO_PROXY="127.0.0.1"))
        assert done.returncode == 0, done.stderr
        again = await anyio.to_thread.run_sync(lambda: shell(*arguments, NO_PROXY="127.0.0.1"))
    assert again.returncode == 1
    assert "cannot be fetched" in again.stderr
    assert Table.load(tmp_path / "table.json").origin.models == 1, "a failed refresh leaves the table alone"


@pytest.mark.parametrize(("text", "said"), [("{}", "no model"), ("nonsense", "not a model table")])
def test_refresh_from_something_else_changes_nothing(tmp_path: Path, config: Path, text: str, said: str) -> None:
    (tmp_path / "other.json").write_text(text)
    done = run("models", "--refresh", str(tmp_path / "other.json"), "--config", str(config))
    assert done.exit_code == 1
    assert said in done.output
    assert not (tmp_path / "table.json").exists()


def test_a_configured_table_that_is_missing_is_said_with_what_to_do(config: Path) -> None:
    done = run("models", "gpt-4o", "--config", str(config))
    assert "trimtab models --refresh" in str(done.exception)
