"""Where the files are that ship with the package.

In a wheel all of them are under `trimtab/data`; in a checkout, those that operators edit are in `config/`.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parent / "data"
_CHECKOUT = Path(__file__).parents[2] / "config"


def page_files() -> dict[str, bytes]:
    """The files of the page under `/ui`, by their names."""
    return {path.name: path.read_bytes() for path in sorted((Path(__file__).parent / "ui" / "page").iterdir())}


def resource(name: str) -> Path:
    """Path of a shipped file, e.g. `prompts/general.md`. Raises FileNotFoundError when it is missing."""
    for root in (_PACKAGE, _CHECKOUT):
        path = root / name
        if path.exists():
            return path
    raise FileNotFoundError(f"{name} is missing from the installed package: reinstall trimtab")
