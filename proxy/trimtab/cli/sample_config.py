"""`trimtab config`: the commented configuration, as it ships with this version."""

from __future__ import annotations

import click


@click.command("config")
def config() -> None:
    """Print the commented configuration: every key with its default.

    \b
      trimtab config > trimtab.toml
      trimtab check --config trimtab.toml
    """
    from trimtab.resources import resource

    click.echo(resource("trimtab.toml").read_text("utf-8"), nl=False)
