"""`trimtab models`: what is known of models, and where it comes from.

Reads the configuration, the environment and the table that ships (or the refreshed one). No upstream is
asked: what an upstream says of itself, or an overflow taught, is known to the running server only.
"""

from __future__ import annotations

import os
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trimtab.cli.config import config_options, settings_of

if TYPE_CHECKING:
    from trimtab.limits import Limit, Table
    from trimtab.settings import Settings

_FILE = "model_limits.json"
_TIMEOUT_S = 60.0


@click.command()
@click.argument("name", required=False)
@click.option("--search", metavar="GLOB", help="List the models of the table whose name matches.")
@click.option("--refresh", metavar="FILE|URL", help="Make a new table from LiteLLM's model list.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@config_options
def models(
    name: str | None,
    search: str | None,
    refresh: str | None,
    as_json: bool,
    config: str | None,
    upstream: str | None,
) -> None:
    """Show what models take, and which source says so.

    With NAME: its window, output and input caps, the budget they leave, prices. Without: what the configuration
    names, and where the table comes from.

    \b
      trimtab models gpt-4o
      trimtab models openrouter/qwen/qwen3-coder:free
      trimtab models --search 'claude-*'
      trimtab models --refresh model_prices_and_context_window.json

    --refresh reads LiteLLM's model_prices_and_context_window.json (a file or a URL) and writes the table to the
    path that `table` in [limits] names, else to your data folder.
    """
    settings = settings_of(config, upstream, need_upstream=False)
    if refresh:
        _refresh(refresh, settings.limits.table)
        return
    from trimtab.cli import models_tables as tables

    table = _table(settings)
    if search:
        found = [entry for entry in table.entries() if _matches(entry.name, search)]
        tables.entries(found, search, as_json)
    elif name:
        tables.one(name, known(settings, name), as_json)
    else:
        tables.configured(settings, table, as_json)


def known(settings: Settings, name: str) -> Limit:
    """The limit of a model as the upstream that takes it would be asked with."""
    from trimtab.errors import UnknownModel
    from trimtab.limits import Limits, from_environment
    from trimtab.upstream.routing import route

    try:
        to = route(name, settings.upstreams).name if settings.upstreams else ""
    except UnknownModel:
        to = ""
    limits = Limits(settings.models, settings=settings.limits, environment=from_environment(os.environ))
    return limits.known(to, name)


def _table(settings: Settings) -> Table:
    from trimtab.errors import ConfigError
    from trimtab.limits import Table

    try:
        return Table.load(settings.limits.table)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"the model table {settings.limits.table} cannot be read ({error}): make it anew with "
            "trimtab models --refresh FILE, or take `table` out of [limits]"
        ) from error


def _matches(name: str, glob: str) -> bool:
    """A pattern without wildcards matches anywhere in the name."""
    pattern = glob.lower() if set(glob) & set("*?[") else f"*{glob.lower()}*"
    return fnmatchcase(name.lower(), pattern)


def _refresh(source: str, configured: str | None) -> None:
    """Fetch, check, write whole or not at all, and say how to use it."""
    from trimtab.limits.refresh import refresh_table
    from trimtab.limits.table import Table

    try:
        data = refresh_table(_read(source))
    except ValueError as error:
        raise click.ClickException(f"{source}: {error}") from error
    path = Path(configured) if configured else data_dir() / _FILE
    _write(path, data)
    click.echo(f"{Table(data).origin.models:,} models written to {path}")
    if not configured:
        click.echo(f"To use it, put this into your configuration:\n\n  [limits]\n  table = '{path}'")


def _read(source: str) -> bytes:
    if not source.startswith(("http://", "https://")):
        try:
            return Path(source).read_bytes()
        except OSError as error:
            raise click.ClickException(f"{source} cannot be read: {error.strerror or error}") from error
    import httpx

    try:
        return httpx.get(source, follow_redirects=True, timeout=_TIMEOUT_S).raise_for_status().content
    except httpx.HTTPError as error:
        raise click.ClickException(
            f"{source} cannot be fetched ({error}): download it some other way and pass the file"
        ) from error


def _write(path: Path, data: bytes) -> None:
    """The new table takes the old one's place in one step, so that a reader never sees half of it."""
    new = path.with_name(path.name + ".new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new.write_bytes(data)
        new.replace(path)
    except OSError as error:
        raise click.ClickException(f"{path} cannot be written: {error.strerror or error}") from error


def data_dir() -> Path:
    """Where a user's own files of this program go, by the custom of each system."""
    home = Path.home()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "trimtab"
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "trimtab"
    return Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share") / "trimtab"
