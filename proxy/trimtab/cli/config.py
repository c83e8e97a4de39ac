"""The settings a command runs with: from a file, from `--upstream`, or from both.

Heavy modules are imported when a command runs, so that `--help` is instant.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from trimtab.errors import ConfigError

if TYPE_CHECKING:
    from trimtab.settings import Settings


def config_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options `--config` and `--upstream`, for every command that reads the configuration."""
    upstream = click.option(
        "--upstream",
        metavar="URL",
        envvar="TRIMTAB_UPSTREAM",
        help="Base URL of the upstream, such as https://api.openai.com/v1, or set TRIMTAB_UPSTREAM. It replaces the "
        "upstreams of a file; with it, no file is needed.",
    )
    config = click.option(
        "-c",
        "--config",
        metavar="FILE",
        envvar="TRIMTAB_CONFIG",
        help="Configuration file in TOML, or set TRIMTAB_CONFIG. trimtab config prints a commented one.",
    )
    return config(upstream(command))


def settings_of(config: str | None, upstream: str | None, *, need_upstream: bool = True) -> Settings:
    """Read the configuration; `upstream` replaces the upstreams of the file. Raises ConfigError, also for a missing
    upstream where `need_upstream`."""
    import msgspec

    from trimtab.settings import load
    from trimtab.upstream.settings import UpstreamSettings

    settings = load(config)
    if upstream:
        try:
            named = UpstreamSettings(name="default", base_url=upstream)
        except ValueError as error:
            raise ConfigError(f"--upstream: {error}") from error
        settings = msgspec.structs.replace(settings, upstreams=(named,))
    if need_upstream and not settings.upstreams:
        unread = " OPENAI_BASE_URL is not read." if "OPENAI_BASE_URL" in os.environ else ""
        raise ConfigError(
            "No upstream is configured. Pass --upstream https://api.openai.com/v1 (or any OpenAI-compatible base URL), "
            f"or --config with an [[upstreams]] table.{unread}"
        )
    return settings
