"""`trimtab plan FILE`: what would be sent of a conversation, without sending it.

The plan is that of a server which has just started, for the same configuration and by the same code; `--json` prints
its answer to `POST /v1/context/plan`. No upstream is called: the limit comes from the configuration, the environment
or the table, the factor is the prior of the model's family.
"""

from __future__ import annotations

import gzip
import os
import sys
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trimtab.cli.config import config_options, settings_of

if TYPE_CHECKING:
    from trimtab.dialects.dialect import Dialect
    from trimtab.exchange.decide import Shaping
    from trimtab.limits import Limits
    from trimtab.settings import Settings
    from trimtab.wire.request import Request

_GZIP = b"\x1f\x8b"


@click.command()
@click.argument("file", metavar="FILE")
@click.option("--model", help="The model; default: the one that the request names.")
@click.option(
    "--context-size", type=click.IntRange(min=1), help="The model's window, in tokens; default: what is known of it."
)
@click.option("--max-tokens", type=click.IntRange(min=1), help="The max_tokens of the request, in tokens.")
@click.option("--profile", default="", help="A profile, as in the header x-trimtab-profile.")
@click.option("--rows", type=click.IntRange(min=4), default=30, show_default=True, help="The most rows to show.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer of POST /v1/context/plan.")
@click.option("--body", "as_body", is_flag=True, help="Print the body that would be sent, byte for byte.")
@config_options
def plan(  # noqa: PLR0913  the options of a command
    file: str,
    model: str | None,
    context_size: int | None,
    max_tokens: int | None,
    profile: str,
    rows: int,
    as_json: bool,
    as_body: bool,
    config: str | None,
    upstream: str | None,
) -> None:
    """Show what would be sent of a conversation, without sending it.

    FILE is a request body of chat completions, responses or messages, a transcript ({"messages", "tools"}) or a list of
    messages, as JSON, gzipped or not; `-` reads standard input. No upstream is called.

    \b
      trimtab plan request.json
      trimtab plan transcript.json.gz --context-size 32768 --max-tokens 4096
      trimtab plan request.json --config trimtab.toml --profile planner_input
      cat request.json | trimtab plan - --model gpt-4o --json | jq .tokens

    Sizes are estimates, in tokens. With --json, `fits` says whether the conversation fits, and `edits` what is removed.
    With --body, a note stands where a summary would be asked for.
    """
    import msgspec

    from trimtab.dialects.paths import recognized
    from trimtab.exchange.explain import explain

    settings = settings_of(config, upstream, need_upstream=False)
    text = unzipped(_bytes(file))
    dialect = recognized(text)
    request = read_request(text, dialect, model=model, max_tokens=max_tokens)
    shaping = decide_offline(request, settings, profile, context_size, dialect)
    if as_body:
        click.echo(_body(shaping, settings), nl=False)
        return
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(explain(shaping, cached=False)), indent=2))
        return
    from trimtab.cli.plan_picture import show

    show(shaping, rows)


def _body(shaping: Shaping, settings: Settings) -> bytes:
    """The body that would be sent, without a summary: no model is called."""
    from trimtab.exchange.outgoing import outgoing
    from trimtab.upstream.families import summary_role
    from trimtab.upstream.routing import route

    model, upstreams = shaping.request.model, settings.upstreams
    role = summary_role(route(model or None, upstreams), model) if upstreams else "system"
    return outgoing(shaping, None, role, include_usage=False)


def unzipped(data: bytes) -> bytes:
    """The JSON in `data`, which may be gzipped; a list of messages as the body that it stands for. Raises
    UsageError."""
    from trimtab.wire.media import BYTE_ORDER_MARK

    try:
        text = gzip.decompress(data) if data.startswith(_GZIP) else data
    except (OSError, EOFError, zlib.error) as error:
        raise click.UsageError(f"Cannot unzip FILE: {error}.") from error
    text = text.removeprefix(BYTE_ORDER_MARK).strip()
    return b'{"messages":' + text + b"}" if text.startswith(b"[") else text


def read_request(text: bytes, dialect: Dialect, *, model: str | None = None, max_tokens: int | None = None) -> Request:
    """The request in `text`, a body or a transcript; `model` and `max_tokens` replace its own. Raises UsageError
    for what is none."""
    import msgspec
    from msgspec import Raw

    from trimtab.errors import InvalidRequest
    from trimtab.wire.request import Unreadable

    try:
        request = dialect.decode(text)
    except InvalidRequest as error:
        raise click.UsageError(error.message.replace("The request body", "FILE", 1)) from error
    except Unreadable as error:
        raise click.UsageError(
            f"FILE must hold a request, a transcript or a list of messages, but is {error}."
        ) from error
    if model is None and max_tokens is None:
        return request
    fields = msgspec.json.decode(request.source, type=dict[str, Raw])
    given = {"model": model, dialect.limited: max_tokens}
    if max_tokens is not None:
        fields.pop("max_completion_tokens", None)
    return dialect.decode(msgspec.json.encode(fields | {k: v for k, v in given.items() if v is not None}))


def decide_offline(
    request: Request, settings: Settings, profile: str, context_size: int | None, dialect: Dialect
) -> Shaping:
    """What a server would decide for `request` before its upstreams have answered anything."""
    from trimtab.context.read.history import history
    from trimtab.context.read.memo import Memo
    from trimtab.exchange.decide import decide
    from trimtab.exchange.management import is_ours, managed
    from trimtab.exchange.policies import Policies
    from trimtab.upstream.families import summary_role
    from trimtab.upstream.routing import route

    to = route(request.model or None, settings.upstreams) if settings.upstreams else None
    strict = to is not None and summary_role(to, request.model) == "user"
    policies = Policies(settings.shaping, settings.all_profiles, settings.compaction)
    if profile and profile not in settings.all_profiles:
        known = ", ".join(sorted(settings.all_profiles))
        raise click.BadParameter(f"'{profile}' is not known. Known: {known}.", param_hint="--profile")
    chosen = policies.choose(profile, "", request.has_tools, strict)
    policy, cap = chosen.policy, chosen.budget
    if request.context_management is not None and is_ours(request.context_management):
        asked = managed(policy, request.context_management)
        policy, cap = asked.policy, asked.least(cap)
    memo, name = Memo(view=dialect.format.view, digest=dialect.format.digest), to.name if to else ""
    conversation = history(request.messages, request.extras, memo, instructed=request.instructed)
    limits = _limits(settings, request.model, context_size)
    limit, factor = limits.known(name, request.model), limits.factor(name, request.model)
    shaping = decide(request, conversation, policy, limit, factor, memo, cap=cap, dialect=dialect)
    return shaping if context_size is None else _with_option_as_source(shaping)


def _limits(settings: Settings, model: str, context_size: int | None) -> Limits:
    """The limits, as known without asking an upstream; `context_size` goes before every source."""
    import msgspec

    from trimtab.limits import Limits, ModelSettings, from_environment
    from trimtab.limits.settings import settings_for

    configured: dict[str, ModelSettings] = settings.models
    if context_size is not None:
        found = settings_for(configured, model)
        given = found[1] if found else ModelSettings()
        configured = {model: msgspec.structs.replace(given, context_size=context_size)}
    return Limits(configured, settings=settings.limits, environment=from_environment(os.environ))


def _with_option_as_source(shaping: Shaping) -> Shaping:
    """The same, with the option named as the source of the window."""
    import msgspec

    limit = msgspec.structs.replace(shaping.limit, detail="--context-size")
    return msgspec.structs.replace(shaping, limit=limit)


def _bytes(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise click.UsageError(f"Cannot read FILE: {error.strerror or error}.") from error
