"""Installs the real clients, by name from the registries, into a folder of their own:

    python -m tests.e2e.install            # into TRIMTAB_CLIENTS, or ~/.cache/trimtab-e2e

The versions are those the tests were last seen to pass with; `--latest` takes whatever is newest. A client that does
not install is left out, and its tests are skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

PYTHON = {
    "openai": "3.57.0",
    "pydantic-ai-slim[openai]": "2.68.0",
    "langchain-openai": "1.7.4",
    "langgraph": "1.2.24",
    "openai-agents": "0.24.0",
    "anthropic": "2.14.0",
}
NODE = {
    "openai": "6.49.0",
    "opencode-ai": "1.18.33",
    "@qwen-code/qwen-code": "0.15.10",
    "@mariozechner/pi-coding-agent": "0.73.1",
    "@continuedev/cli": "1.5.47",
    "@openai/codex": "0.171.0",
    "@anthropic-ai/claude-code": "2.1.197",
}


def folder() -> Path:
    """Where the clients are: `py` is a virtual environment, `node` an npm prefix."""
    return Path(os.environ.get("TRIMTAB_CLIENTS") or Path.home() / ".cache" / "trimtab-e2e")


def python() -> Path:
    return folder() / "py" / "bin" / "python"


def node_bin(name: str) -> Path:
    return folder() / "node" / "node_modules" / ".bin" / name


def main() -> None:
    latest = "--latest" in sys.argv
    if not python().exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder() / "py")], check=True)
    pip = [str(python()), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    _try([*pip, *(name if latest else f"{name}=={version}" for name, version in PYTHON.items())])
    if shutil.which("npm") is None:
        print("npm is not here: the Node SDK and the coding agents are left out", file=sys.stderr)
        return
    (folder() / "node").mkdir(parents=True, exist_ok=True)
    npm = ["npm", "install", "--no-fund", "--no-audit", "--loglevel=error", "--prefix", str(folder() / "node")]
    for name, version in NODE.items():
        _try([*npm, name if latest else f"{name}@{version}"])


def _try(command: list[str]) -> None:
    if subprocess.run(command, check=False).returncode:
        print(f"not installed: {command[-1]}", file=sys.stderr)


if __name__ == "__main__":
    main()
