"""What keeps the server from starting: `trimtab serve` refuses it in words, and `trimtab check` fails with the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import run, shell
from tests.support.scripted import closed_port
from trimtab.errors import ConfigError
from trimtab.server.startup import check_startable, failing, prompts_of
from trimtab.settings import parse
from trimtab.summaries.settings import CompactionSettings

UPSTREAM = f"[[upstreams]]\nname = 'a'\nbase_url = 'http://127.0.0.1:{closed_port()}/v1'\nmodels = ['gpt*']\n"
BROKEN_TABLE = '{"models":{\n"a":["large"],\n}}'
EMPTY_TABLE = '{"models":{\n}}'

FAULTS = {
    "a summary model that no upstream takes": ("[compaction]\nmodel = 'fast'\n", "No upstream serves the model 'fast'"),
    "no model table": ("[limits]\ntable = 'FOLDER/nowhere.json'\n", "nowhere.json: no such file or directory"),
    "a table that is none": ("[limits]\ntable = 'FOLDER/config.toml'\n", "not a model table"),
    "a table with a broken line": ("[limits]\ntable = 'FOLDER/broken.json'\n", "[limits] table: cannot read"),
    "a table without a model": ("[limits]\ntable = 'FOLDER/empty.json'\n", "it lists no model"),
    "no ca_file": ("ca_file = 'FOLDER/ca.pem'\n", "a ca_file that cannot be read (FOLDER/ca.pem: No such file"),
    "a ca_file that is none": ("ca_file = 'FOLDER/config.toml'\n", "a ca_file that cannot be read"),
    "no prompts": ("[compaction]\nprompts = 'FOLDER/none'\n", "FOLDER/none is not a directory"),
    "prompts that cannot be read": ("[compaction]\nprompts = 'FOLDER/prompts'\n", "cannot read a prompt"),
    "an address of something else": ("[redis]\nurl = 'mysql://127.0.0.1/0'\n", "redis://"),
    "exposed keys": ("api_key = 'sk-x'\n[server]\nhost = '0.0.0.0'\n", "client_keys"),
    "an upstream without models": ("[[upstreams]]\nname='b'\nbase_url='http://b/v1'\nmodels=[]\n", "models is empty"),
    "an open variable": ("api_key = '${NO'\n", "without its }"),
    "spaces in base_url": ("[[upstreams]]\nname = 'b'\nbase_url = 'http://b /v1'\n", "contains a space"),
    "an output above the window": ("[models.m]\ncontext_size = 1\nmax_output_tokens = 2\n", "above context_size"),
}


@pytest.mark.parametrize(("toml", "words"), FAULTS.values(), ids=FAULTS)
def test_serve_refuses_it_and_check_fails(tmp_path: Path, toml: str, words: str) -> None:
    config = tmp_path / "config.toml"
    config.write_text(UPSTREAM + toml.replace("FOLDER", str(tmp_path)))
    (tmp_path / "broken.json").write_text(BROKEN_TABLE)
    (tmp_path / "empty.json").write_text(EMPTY_TABLE)
    (tmp_path / "prompts" / "general.md").mkdir(parents=True)
    words = words.replace("FOLDER", str(tmp_path))
    served, checked = run("serve", "-c", str(config), "--port", "0"), run("check", "-c", str(config), width=400)
    assert isinstance(served.exception, ConfigError)
    assert words in served.exception.message
    assert checked.exit_code == 1
    assert any(line.startswith("failed") and words in line for line in checked.output.splitlines())


def test_traces_without_their_libraries_are_refused_with_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "opentelemetry").mkdir()
    (tmp_path / "opentelemetry" / "__init__.py").write_text("raise ImportError('not here')")
    config = tmp_path / "config.toml"
    config.write_text(UPSTREAM + "[telemetry]\ntraces = true\n")
    for command, code in (("serve", 2), ("check", 1)):
        done = shell(command, "-c", str(config), PYTHONPATH=str(tmp_path))
        assert done.returncode == code
        assert "pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http" in done.stdout + done.stderr


def test_all_that_fails_is_named_at_once() -> None:
    toml = UPSTREAM + "[compaction]\nmodel = 'fast'\n[limits]\ntable = '/nowhere'\n[redis]\nurl = 'x'\n"
    assert [name for name, _ in failing(parse(toml, {}))] == ["model table", "summaries", "redis address"]
    with pytest.raises(ConfigError) as error:
        check_startable(parse(toml, {}))
    assert len(error.value.message.splitlines()) == 3
    check_startable(parse(UPSTREAM, {}))


def test_an_environment_that_cannot_be_read_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_CONTEXT_SIZE", "large")
    assert [name for name, _ in failing(parse(UPSTREAM, {}))] == ["environment"]


def test_prompts_are_the_operators_before_those_that_ship(tmp_path: Path) -> None:
    (tmp_path / "general.md").write_text("Own words.")
    prompts = prompts_of(CompactionSettings(prompts=str(tmp_path)))
    assert prompts["general"].text == "Own words."
    assert prompts["react_iteration"].text != "Own words."
