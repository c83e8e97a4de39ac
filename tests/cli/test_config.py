"""The settings a command runs with: a file, `--upstream`, or both."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import shell
from trimtab.cli.config import settings_of
from trimtab.errors import ConfigError

FILE = '[[upstreams]]\nname = "a"\nbase_url = "http://a.example/v1"\n[shaping]\ntarget = 0.4\n'


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "trimtab.toml"
    path.write_text(FILE)
    return str(path)


def test_an_upstream_on_the_command_line_is_enough() -> None:
    (upstream,) = settings_of(None, "http://b.example/v1").upstreams
    assert (upstream.name, upstream.base_url, upstream.models) == ("default", "http://b.example/v1", ("*",))


def test_it_takes_the_place_of_those_in_the_file_and_leaves_the_rest(config: str) -> None:
    settings = settings_of(config, "http://b.example/v1")
    assert [upstream.base_url for upstream in settings.upstreams] == ["http://b.example/v1"]
    assert settings.shaping.target == 0.4
    assert [upstream.name for upstream in settings_of(config, None).upstreams] == ["a"]


@pytest.mark.parametrize(
    ("upstream", "printed"),
    [("nonsense", "--upstream: base_url must begin with http"), (None, "No upstream is configured. Pass --upstream")],
)
def test_without_a_usable_one_it_says_what_to_pass(upstream: str | None, printed: str) -> None:
    with pytest.raises(ConfigError, match=printed):
        settings_of(None, upstream)
    assert settings_of(None, None, need_upstream=False).upstreams == ()


def test_a_variable_of_other_clients_is_not_taken_for_it() -> None:
    done = shell("serve", OPENAI_BASE_URL="http://b.example/v1")
    assert done.returncode == 2
    assert "OPENAI_BASE_URL is not read" in done.stderr


def test_the_file_can_be_named_by_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "trimtab.toml"
    path.write_text("[models.mine]\ncontext_size = 5000\n")
    assert '"mine"' in shell("models", "--json", TRIMTAB_CONFIG=str(path)).stdout
