"""The program `trimtab`: its commands, and how errors end it.

Commands import what they need when they run, so that `--help` is instant.
"""

from __future__ import annotations

import sys

import click

from trimtab import __version__
from trimtab.cli.check import check
from trimtab.cli.demo import demo
from trimtab.cli.models import models
from trimtab.cli.plan import plan
from trimtab.cli.sample_config import config
from trimtab.cli.serve import serve
from trimtab.cli.top import top
from trimtab.errors import ConfigError, TrimtabError


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "-V", "--version")
def cli() -> None:
    """Keep long LLM conversations inside the model's context window.

    Trimtab is a reverse proxy: point the base_url of any OpenAI SDK at it. A request that fits is forwarded unchanged.
    One that does not fit is shortened before it is sent; the conversation in your client is never changed.

    \b
      trimtab demo                                  watch a recorded agent run survive a small window
      trimtab serve --upstream URL                  run the proxy, without a configuration
      trimtab plan conversation.json                see what would be sent, without sending it
      trimtab top                                   watch a running proxy
      trimtab models gpt-4o                         see a model's window, and which source states it
      trimtab config                                print the commented configuration
      trimtab check --config FILE                   test the configuration, the upstreams and Redis
    """


for command in (serve, demo, top, plan, models, config, check):
    cli.add_command(command)


def main() -> None:
    """Entry point. An expected error is printed on stderr in its own words, without a traceback. Exits with 2 for a
    wrong configuration or option, with 1 for another failure."""
    try:
        code = cli.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(130)
    except TrimtabError as error:
        several = error.message.count("\n") + 1
        message = f"{several} errors:\n{error.message}" if several > 1 else error.message
        click.secho(f"trimtab: {message}", fg="red", err=True)
        sys.exit(2 if isinstance(error, ConfigError) else 1)
    sys.exit(code if isinstance(code, int) else 0)
