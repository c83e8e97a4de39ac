"""How limits look in a terminal, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
import msgspec
from rich.table import Table as Grid

from trimtab.cli.terminal import open_console, printable
from trimtab.limits import Limit, Prices, Table, usable
from trimtab.limits.table import Entry
from trimtab.settings import Settings


def one(name: str, limit: Limit, as_json: bool) -> None:
    """All that is known of one model."""
    if as_json:
        _json({"model": name, **_asdict(limit), "usable": usable(limit).usable})
        return
    budget = usable(limit)
    detail = f"{limit.source}: {limit.detail}" if limit.detail else limit.source
    rows = [
        ("context window", _tokens(limit.context_size)),
        ("longest answer", _tokens(limit.max_output_tokens)),
        ("most input", _tokens(limit.max_input_tokens) if limit.max_input_tokens else ""),
        ("operator's budget", _tokens(limit.budget) if limit.budget else ""),
        ("usable for input", f"{_tokens(budget.usable)}, when a request does not say its max_tokens"),
        ("prices", _prices(limit.prices)),
        ("source", detail),
        ("", "" if limit.trusted else "A guess: requests are shaped to it, and never refused because of it."),
    ]
    out = open_console()
    out.print(printable(name), style="bold", markup=False)
    grid = Grid(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    for label, value in rows:
        if value:
            grid.add_row(label, value)
    out.print(grid)


def configured(settings: Settings, table: Table, as_json: bool) -> None:
    """What the configuration says of models, and the table behind it."""
    origin = table.origin
    if as_json:
        tables = {name: _asdict(model) for name, model in settings.models.items()}
        _json({"models": tables, "table": {**_asdict(origin), "path": settings.limits.table}})
        return
    out = open_console()
    if settings.models:
        grid = _grid("configured", "window", "longest answer", "most input", "budget", "prices")
        for name, model in settings.models.items():
            sizes = (model.context_size, model.max_output_tokens, model.max_input_tokens, model.budget)
            grid.add_row(name, *(f"{size:,}" if size else "" for size in sizes), _prices(model.prices))
        out.print(grid)
    else:
        out.print('The configuration names no model; [models."NAME"] tables do.', markup=False)
    out.print()
    shipped = settings.limits.table or "ships with trimtab"
    licence = "" if origin.licence in origin.source else f" ({origin.licence})"
    out.print(f"Table: {origin.models:,} models of {origin.date}, from {origin.source}{licence}", markup=False)
    out.print(f"       {shipped}; newer with: trimtab models --refresh FILE|URL\n", markup=False)
    out.print("One model: trimtab models NAME. Many: trimtab models --search 'gpt-*'", markup=False)


def entries(found: Sequence[Entry], glob: str, as_json: bool) -> None:
    """The table's entries that matched."""
    if as_json:
        _json([_asdict(entry) for entry in found])
        return
    out = open_console()
    if not found:
        raise click.ClickException(f"no model of the table matches {glob!r}: try --search '*part*of*name*'")
    grid = _grid("model", "window", "longest answer", "most input", "$ input", "output", "cached")
    for entry in found:
        sizes = (entry.context_size, entry.max_output_tokens, entry.max_input_tokens)
        prices = (entry.input, entry.output, entry.cache_read)
        cells = [f"{size:,}" if size else "" for size in sizes]
        grid.add_row(entry.name, *cells, *("" if price is None else f"{price:g}" for price in prices))
    out.print(grid)
    out.print(f"{len(found):,} models; prices in USD per million tokens", markup=False)


def _grid(*names: str) -> Grid:
    grid = Grid(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for i, name in enumerate(names):
        text = i == 0 or name == "prices"
        grid.add_column(name, justify="left" if text else "right", no_wrap=not text, overflow="fold")
    return grid


def _tokens(number: int) -> str:
    return f"{number:,} tokens"


def _prices(prices: Prices | None) -> str:
    """USD per million tokens, of what is stated."""
    if prices is None:
        return ""
    stated = (("input", prices.input), ("output", prices.output), ("cached", prices.cache_read))
    said = ", ".join(f"{name} ${value:g}" for name, value in stated if value is not None)
    return f"{said} a million" if said else ""


def _asdict(value: Any) -> dict[str, Any]:
    return dict(msgspec.to_builtins(value))


def _json(value: Any) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))
