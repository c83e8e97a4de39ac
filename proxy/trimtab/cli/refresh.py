"""`trimtab models --refresh`: make a new model table from LiteLLM's list, from a file or a URL.

The list is checked before anything is written, and the new table replaces the old one in one step.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

_FILE = "model_limits.json"
_TIMEOUT_S = 60.0


def refresh(source: str, configured: str | None) -> None:
    """Make a table from `source`, a path or a URL, and print how to use it. It is written to `configured`, else to the
    user's data folder. Raises ClickException."""
    from trimtab.limits import Table, refresh_table

    try:
        data = refresh_table(_read(source))
    except ValueError as error:
        raise click.ClickException(f"{source}: {error}.") from error
    path = Path(configured) if configured else data_dir() / _FILE
    _write(path, data)
    click.echo(f"Wrote {Table(data).origin.models:,} models to {path}")
    if not configured:
        click.echo(f"To use it, add this to your configuration:\n\n  [limits]\n  table = '{path}'")


def data_dir() -> Path:
    """The folder for a user's own files of this program, by the convention of each system."""
    home = Path.home()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "trimtab"
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "trimtab"
    return Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share") / "trimtab"


def _read(source: str) -> bytes:
    if not source.startswith(("http://", "https://")):
        try:
            return Path(source).read_bytes()
        except OSError as error:
            raise click.ClickException(f"Cannot read {source}: {error.strerror or error}.") from error
    import httpx

    try:
        return httpx.get(source, follow_redirects=True, timeout=_TIMEOUT_S).raise_for_status().content
    except httpx.HTTPError as error:
        raise click.ClickException(
            f"Cannot fetch {source} ({error}). Download it another way and pass the file."
        ) from error


def _write(path: Path, data: bytes) -> None:
    """Replace the table in one step, so that a reader never sees half of it."""
    new = path.with_name(path.name + ".new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new.write_bytes(data)
        new.replace(path)
    except OSError as error:
        raise click.ClickException(f"Cannot write {path}: {error.strerror or error}.") from error
