"""Real tools, found on PATH or in `.tools` (made by `tests/deploy/tools.sh`), and the two ways a check can end badly.

A check is a function that returns one line on what it found. It raises Wrong when something is wrong, and Missing when
its tool is not installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOLS = Path(os.environ.get("TRIMTAB_TOOLS", ROOT / ".tools")) / "bin"


class Wrong(AssertionError):
    """The checked thing is wrong; the message is the tool's own."""


class Missing(Exception):
    """The tool is not installed."""


def path(tool: str) -> str:
    """Where a tool is installed. Raises Missing."""
    found = shutil.which(tool, path=f"{TOOLS}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None:
        raise Missing(f"{tool} is not installed (tests/deploy/tools.sh)")
    return found


def run(tool: str, *arguments: str | Path, stdin: str | None = None) -> str:
    """Run a tool in the root of the checkout and return its output. Raises Wrong when it fails, and Missing."""
    done = subprocess.run(
        [path(tool), *map(str, arguments)], cwd=ROOT, input=stdin, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Wrong((done.stderr + done.stdout).strip() or f"{tool} failed")
    return done.stdout


def python(code: str, stdin: str) -> str:
    """Run code with the Python of `.tools`, which has packages that only these checks need. Raises Wrong, Missing."""
    if not (TOOLS / "python").exists():
        raise Missing("there is no .tools/bin/python (tests/deploy/tools.sh)")
    done = subprocess.run([TOOLS / "python", "-c", code], input=stdin, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Wrong(done.stderr.strip()[-2000:])
    return done.stdout
