"""`trimtab serve`: run the proxy.

Options of the command line replace what the file sets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from trimtab.cli.config import config_options, settings_of

if TYPE_CHECKING:
    from trimtab.settings import Settings


class _Port(click.IntRange):
    """A port; None for the address that Kubernetes puts into TRIMTAB_PORT of every pod beside a Service `trimtab`."""

    def __init__(self) -> None:
        super().__init__(0, 65535)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number, or None. Raises BadParameter for what is neither."""
        return None if str(value).startswith("tcp://") else super().convert(value, param, ctx)


@click.command()
@config_options
@click.option("--host", help="Address to listen on; default: the file's, else 127.0.0.1.")
@click.option(
    "--port",
    type=_Port(),
    envvar="TRIMTAB_PORT",
    help="Port to listen on, 0 for any free one, or set TRIMTAB_PORT; default: the file's, else 8080.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(1, 65535),
    help="Port for metrics and health alone; default: the file's, else they are on the port above.",
)
@click.option(
    "--conversations",
    is_flag=True,
    help="Store conversations, as [conversations] in a file does, by default in ~/.local/share/trimtab.",
)
def serve(
    config: str | None,
    upstream: str | None,
    host: str | None,
    port: int | None,
    metrics_port: int | None,
    conversations: bool,
) -> None:
    """Run the proxy.

    \b
      trimtab serve --upstream https://api.openai.com/v1
      trimtab serve --upstream http://localhost:11434/v1 --port 9000
      trimtab serve --config trimtab.toml

    Then point the base_url of an OpenAI SDK at http://HOST:PORT/v1.

    Without a file the defaults apply: limits come from the upstream's own listing and the table in the package, the
    oldest turns are dropped instead of summarized, and nothing is stored outside the process.
    """
    import msgspec

    from trimtab.conversations.settings import ConversationsSettings
    from trimtab.server.serve import serve as run

    options = {"host": host, "port": port, "metrics_port": metrics_port}
    given = {name: value for name, value in options.items() if value is not None}

    def read() -> Settings:
        settings = settings_of(config, upstream)
        if conversations and settings.conversations is None:
            settings = msgspec.structs.replace(settings, conversations=ConversationsSettings())
        return msgspec.structs.replace(settings, server=msgspec.structs.replace(settings.server, **given))

    run(read(), config or "", read)
