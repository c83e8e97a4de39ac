"""Running the commands: in this process, and as a user would."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from click.testing import CliRunner, Result

from trimtab.cli.main import cli

ROOT = Path(__file__).parents[2]


def run(*arguments: str, stdin: bytes | None = None, width: int = 100) -> Result:
    """A command in this process; an error of ours is left in `result.exception`."""
    environment = {"COLUMNS": str(width), "TRIMTAB_CONFIG": None, "LLM_CONTEXT_SIZE": None}
    return CliRunner(env=environment).invoke(cli, arguments, input=stdin)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "trimtab", *arguments]


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TRIMTAB_", "LLM_"))}
    return {**kept, "PYTHONPATH": str(ROOT), **(more or {})}


def shell(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own; `more` is added to its environment."""
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, env=environment(more), timeout=110, check=False
    )
