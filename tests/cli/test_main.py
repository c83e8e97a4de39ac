"""The command line as such: what it offers, and how it fails."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cli.commands import environment, run, shell

COMMANDS = ("serve", "demo", "plan", "models", "config", "check")


@pytest.mark.parametrize("name", COMMANDS)
def test_help_teaches_with_examples(name: str) -> None:
    printed = run(name, "--help").output
    assert "Usage:" in printed
    assert f"    trimtab {name}" in printed


def test_help_lists_every_command() -> None:
    printed = run("--help").output
    assert all(f"  {name}" in printed for name in COMMANDS)


@pytest.mark.parametrize(
    ("arguments", "code", "printed"),
    [
        (("serve",), 2, "No upstream is configured. Pass --upstream"),
        (("serve", "--config", "/nowhere.toml"), 2, "Cannot read /nowhere.toml"),
        (("plan", "/nowhere.json"), 2, "Cannot read FILE"),
        (("nonsense",), 2, "No such command"),
    ],
)
def test_what_goes_wrong_is_a_sentence_and_an_exit_code(arguments: tuple[str, ...], code: int, printed: str) -> None:
    done = shell(*arguments)
    assert done.returncode == code
    assert printed in done.stderr
    assert "Traceback" not in done.stderr


def test_help_imports_nothing_heavy() -> None:
    code = "import sys, trimtab.cli.main; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True)
    heavy = {"litestar", "granian", "httpx", "aiohttp", "openai", "msgspec", "rich.console"}
    assert not heavy & set(done.stdout.split())
