"""`trimtab models --refresh`: a new table, whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest

from tests.cli.commands import run, shell
from tests.support.scripted import ScriptedUpstream, json_reply, reply
from trimtab.limits import Table

LITELLM = {
    "gpt-9": {"mode": "chat", "max_input_tokens": 500_000, "max_output_tokens": 32_000, "input_cost_per_token": 2e-6},
    "picture-1": {"mode": "image_generation"},
}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "trimtab.toml"
    path.write_text(f"[limits]\ntable = '{tmp_path}/table.json'\n")
    return path


def test_refresh_from_a_file_writes_the_table_the_configuration_names(tmp_path: Path, config: Path) -> None:
    (tmp_path / "litellm.json").write_text(json.dumps(LITELLM))
    done = run("models", "--refresh", str(tmp_path / "litellm.json"), "--config", str(config))
    assert done.exit_code == 0, done.output
    assert "Wrote 1 models" in done.output
    found = Table.load(tmp_path / "table.json").find("gpt-9")
    assert found is not None
    assert found.entry.context_size == 500_000
    shown = run("models", "gpt-9", "--json", "--config", str(config)).output
    assert json.loads(shown)["context_size"] == 500_000


def test_refresh_without_a_configured_place_goes_to_the_users_folder(tmp_path: Path) -> None:
    (tmp_path / "litellm.json").write_text(json.dumps(LITELLM))
    done = shell("models", "--refresh", str(tmp_path / "litellm.json"), HOME=str(tmp_path), XDG_DATA_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    written = next(path for path in tmp_path.rglob("model_limits.json"))
    assert f"table = '{written}'" in done.stdout


@pytest.mark.anyio
async def test_refresh_from_a_url(tmp_path: Path, config: Path) -> None:
    async with ScriptedUpstream(json_reply(LITELLM), reply(404)) as site:
        arguments = ("models", "--refresh", f"{site.origin}/models.json", "--config", str(config))
        done = await anyio.to_thread.run_sync(lambda: shell(*arguments, NO_PROXY="127.0.0.1"))
        assert done.returncode == 0, done.stderr
        again = await anyio.to_thread.run_sync(lambda: shell(*arguments, NO_PROXY="127.0.0.1"))
    assert again.returncode == 1
    assert "Cannot fetch" in again.stderr
    assert Table.load(tmp_path / "table.json").origin.models == 1, "a failed refresh leaves the table alone"


@pytest.mark.parametrize(("text", "printed"), [("{}", "no model"), ("nonsense", "not a model table")])
def test_refresh_from_something_else_changes_nothing(tmp_path: Path, config: Path, text: str, printed: str) -> None:
    (tmp_path / "other.json").write_text(text)
    done = run("models", "--refresh", str(tmp_path / "other.json"), "--config", str(config))
    assert done.exit_code == 1
    assert printed in done.output
    assert not (tmp_path / "table.json").exists()
