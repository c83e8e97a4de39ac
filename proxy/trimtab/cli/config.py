"""The settings a command runs with: a file, `--upstream`, or both.

Nothing heavy is imported until a command runs, so that `--help` is instant.
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
    """`--config` and `--upstream`, shared by all commands that read the configuration."""
    upstream = click.option(
        "--upstream",
        metavar="URL",
        help="Base URL of the upstream, e.g. https://api.openai.com/v1. Enough without a file.",
    )
    config = click.option(
        "-c",
        "--config",
        metavar="FILE",
        envvar="TRIMTAB_CONFIG",
        help="TOML file; config/trimtab.toml is a commented one. Also TRIMTAB_CONFIG.",
    )
    return config(upstream(command))


def settings_of(config: str | None, upstream: str | None, *, need_upstream: bool = True) -> Settings:
    """Read the configuration. Raises ConfigError, also when no upstream is named and one is needed."""
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
        raise ConfigError(
            "no upstream: pass --upstream https://api.openai.com/v1 (or any OpenAI-compatible base URL), "
            f"or --config with an [[upstreams]] table{_hint()}"
        )
    return settings


def _hint() -> str:
    if "OPENAI_BASE_URL" not in os.environ:
        return ""
    return " (OPENAI_BASE_URL is not read: an upstream is always named on purpose)"
