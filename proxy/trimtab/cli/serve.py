"""`trimtab serve`."""

from __future__ import annotations

import click

from trimtab.cli.config import config_options, settings_of


@click.command()
@config_options
@click.option("--host", help="Address to listen on (default 127.0.0.1, or the file's).")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on (default 8080, or the file's).")
def serve(config: str | None, upstream: str | None, host: str | None, port: int | None) -> None:
    """Run the proxy.

    \b
      trimtab serve --upstream https://api.openai.com/v1
      trimtab serve --upstream http://localhost:11434/v1 --port 9000
      trimtab serve --config trimtab.toml

    With only --upstream it runs on embedded defaults: summaries off, nothing stored, limits from what the upstream
    says of itself and the bundled table. Point an OpenAI SDK's base_url at http://HOST:PORT/v1.
    """
    import msgspec

    from trimtab.server.serve import serve as run

    settings = settings_of(config, upstream)
    given = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    server = msgspec.structs.replace(settings.server, **given)
    run(msgspec.structs.replace(settings, server=server), _say)


def _say(url: str, shared: str) -> None:
    click.echo(
        f"trimtab listens on {url}/v1  (health: {url}/healthz/ready, metrics: {url}/metrics)\n{shared}", err=True
    )
