"""`trimtab models`: what models take, and which source states it.

Sources are the configuration, the environment, and the model table (the one in the package, or a refreshed one). No
upstream is asked: what was discovered or learned is known only to the running server.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import click

from trimtab.cli.config import config_options, settings_of
from trimtab.cli.refresh import refresh as make_table

if TYPE_CHECKING:
    from rich.table import Table as Grid

    from trimtab.limits import Entry, Limit, Prices, Table
    from trimtab.settings import Settings


@click.command()
@click.argument("name", required=False)
@click.option("--search", metavar="GLOB", help="List the models of the table whose name matches.")
@click.option("--refresh", metavar="FILE|URL", help="Make a new table from LiteLLM's list of models.")
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
    """Show the limits of models, and which source states them.

    With NAME: the window of that model, its output and input caps, the budget they leave, its prices. Without: the
    configured models, and where the table comes from.

    \b
      trimtab models gpt-4o
      trimtab models openrouter/qwen/qwen3-coder:free
      trimtab models --search 'claude-*'
      trimtab models --refresh model_prices_and_context_window.json

    --refresh reads LiteLLM's model_prices_and_context_window.json, from a file or a URL. It writes the table to the
    path of `table` in [limits], else to your data folder.
    """
    settings = settings_of(config, upstream, need_upstream=False)
    if refresh:
        make_table(refresh, settings.limits.table)
        return
    table = _load_table(settings)
    if search:
        show_entries([entry for entry in table.entries() if _matches(entry.name, search)], search, as_json)
    elif name:
        show_model(name, known(settings, name), as_json)
    else:
        show_configured(settings, table, as_json)


def known(settings: Settings, name: str) -> Limit:
    """The limit of a model at the upstream that its requests go to."""
    from trimtab.errors import UnknownModel
    from trimtab.limits import Limits, from_environment
    from trimtab.upstream.routing import route

    try:
        upstream = route(name, settings.upstreams).name if settings.upstreams else ""
    except UnknownModel:
        upstream = ""
    limits = Limits(settings.models, settings=settings.limits, environment=from_environment(os.environ))
    return limits.known(upstream, name)


def show_model(name: str, limit: Limit, as_json: bool) -> None:
    """Print what is known of one model."""
    from rich.table import Table as Grid

    from trimtab.cli.terminal import open_console, printable
    from trimtab.limits import usable

    budget = usable(limit)
    if as_json:
        _print_json({"model": name, **_asdict(limit), "usable": budget.usable})
        return
    rows = [
        ("context window", _tokens(limit.context_size)),
        ("longest answer", _tokens(limit.max_output_tokens)),
        ("largest input", _tokens(limit.max_input_tokens) if limit.max_input_tokens else ""),
        ("operator's budget", _tokens(limit.budget) if limit.budget else ""),
        ("usable for input", f"{_tokens(budget.usable)}, when a request does not set max_tokens"),
        ("prices", _prices(limit.prices)),
        ("source", f"{limit.source}: {limit.detail}" if limit.detail else limit.source),
        ("", "" if limit.trusted else "A guess: requests are shaped to it, but never refused because of it."),
    ]
    out = open_console()
    out.print(printable(name), style="bold", markup=False)
    grid = Grid(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    for label, value in rows:
        if value:
            grid.add_row(label, value)
    out.print(grid)


def show_configured(settings: Settings, table: Table, as_json: bool) -> None:
    """Print the configured models, and where the table comes from."""
    from trimtab.cli.terminal import open_console

    origin = table.origin
    if as_json:
        tables = {name: _asdict(model) for name, model in settings.models.items()}
        _print_json({"models": tables, "table": {**_asdict(origin), "path": settings.limits.table}})
        return
    out = open_console()
    if settings.models:
        grid = _grid("configured", "window", "longest answer", "largest input", "budget", "prices")
        for name, model in settings.models.items():
            sizes = (model.context_size, model.max_output_tokens, model.max_input_tokens, model.budget)
            grid.add_row(name, *(f"{size:,}" if size else "" for size in sizes), _prices(model.prices))
        out.print(grid)
    else:
        out.print('No model is configured; tables [models."NAME"] do that.', markup=False)
    out.print()
    path = settings.limits.table or "the table in the package"
    licence = "" if origin.licence in origin.source else f" ({origin.licence})"
    out.print(f"Table: {origin.models:,} models of {origin.date}, from {origin.source}{licence}", markup=False)
    out.print(f"       {path}; for a newer one: trimtab models --refresh FILE|URL\n", markup=False)
    out.print("One model: trimtab models NAME. Many: trimtab models --search 'gpt-*'", markup=False)


def show_entries(found: Sequence[Entry], glob: str, as_json: bool) -> None:
    """Print entries of the table. Raises ClickException when there are none."""
    from trimtab.cli.terminal import open_console

    if as_json:
        _print_json([_asdict(entry) for entry in found])
        return
    if not found:
        raise click.ClickException(f"No model in the table matches {glob!r}. Try --search '*part*of*name*'.")
    out = open_console()
    grid = _grid("model", "window", "longest answer", "largest input", "$ input", "output", "cached")
    for entry in found:
        sizes = (entry.context_size, entry.max_output_tokens, entry.max_input_tokens)
        prices = (entry.input, entry.output, entry.cache_read)
        cells = [f"{size:,}" if size else "" for size in sizes]
        grid.add_row(entry.name, *cells, *("" if price is None else f"{price:g}" for price in prices))
    out.print(grid)
    out.print(f"{len(found):,} models; prices in USD per million tokens", markup=False)


def _load_table(settings: Settings) -> Table:
    from trimtab.errors import ConfigError
    from trimtab.limits import Table

    try:
        return Table.load(settings.limits.table)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"Cannot read the model table {settings.limits.table} ({error}). Make a new one with "
            "trimtab models --refresh FILE, or remove `table` from [limits]."
        ) from error


def _matches(name: str, glob: str) -> bool:
    """True when the name matches; a pattern without wildcards matches anywhere in it."""
    pattern = glob.lower() if set(glob) & set("*?[") else f"*{glob.lower()}*"
    return fnmatchcase(name.lower(), pattern)


def _grid(*names: str) -> Grid:
    from rich.table import Table as Grid

    grid = Grid(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for i, name in enumerate(names):
        text = i == 0 or name == "prices"
        grid.add_column(name, justify="left" if text else "right", no_wrap=not text, overflow="fold")
    return grid


def _tokens(number: int) -> str:
    return f"{number:,} tokens"


def _prices(prices: Prices | None) -> str:
    """The stated prices, in USD per million tokens."""
    if prices is None:
        return ""
    named = (("input", prices.input), ("output", prices.output), ("cached", prices.cache_read))
    text = ", ".join(f"{name} ${value:g}" for name, value in named if value is not None)
    return f"{text} per million tokens" if text else ""


def _asdict(value: Any) -> dict[str, Any]:
    import msgspec

    return dict(msgspec.to_builtins(value))


def _print_json(value: Any) -> None:
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))
