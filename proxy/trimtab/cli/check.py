"""`trimtab check`: is the configuration right, and does everything it names answer?

Every line is one finding with what to do about it; the exit code is 1 when one failed. Upstreams are called
with the client of the server, so that a certificate or a proxy in between shows here as it would there.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

import click

from trimtab.cli.config import config_options, settings_of
from trimtab.errors import ConfigError, TrimtabError

if TYPE_CHECKING:
    from trimtab.settings import Settings
    from trimtab.upstream.client import Client
    from trimtab.upstream.settings import UpstreamSettings

_CONNECT_S, _READ_S = 5.0, 10.0
_PROBE_KEY = "trimtab:check"
_MOST_BYTES = 8 << 20  # of a model list; the longest known has a megabyte


class Finding(NamedTuple):
    """One line. `note` is worth reading and fails nothing."""

    state: Literal["ok", "note", "failed"]
    what: str
    said: str


@click.command()
@config_options
def check(config: str | None, upstream: str | None) -> None:
    """Check the configuration, and that upstreams and Redis answer.

    \b
      trimtab check --upstream http://localhost:11434/v1
      trimtab check --config trimtab.toml && trimtab serve --config trimtab.toml

    Every line says ok, note or failed, and what to do. The exit code is 1 when something failed. Nothing is
    generated: upstreams are asked for GET /models only.
    """
    failed = asyncio.run(_run(config, upstream))
    click.get_current_context().exit(1 if failed else 0)


async def _run(config: str | None, upstream: str | None) -> int:
    """Print findings as they come; the number of failed ones."""
    try:
        settings = settings_of(config, upstream)
    except ConfigError as error:
        _print(Finding("failed", "configuration", error.message))
        return 1
    failed = 0
    for finding in _configured(settings, config):
        failed += _print(finding)
    async for finding in _answering(settings):
        failed += _print(finding)
    return failed


def _print(finding: Finding) -> bool:
    colour = {"ok": "green", "note": "yellow", "failed": "red"}[finding.state]
    click.echo(f"{click.style(f'{finding.state:<6}', fg=colour)}  {finding.what}: {finding.said}")
    return finding.state == "failed"


def _configured(settings: Settings, config: str | None) -> Iterator[Finding]:
    """What can be judged without asking anyone."""
    from trimtab.settings import check_exposure

    read = f"{config} is understood" if config else "no file, embedded defaults"
    yield Finding("ok", "configuration", read)
    try:
        check_exposure(settings)
        yield Finding("ok", "exposure", _exposed(settings))
    except ConfigError as error:
        yield Finding("failed", "exposure", error.message)
    yield _table(settings)
    yield from _shadowed(settings.upstreams)
    yield from _summaries(settings)


def _exposed(settings: Settings) -> str:
    server = settings.server
    who = f"{len(server.client_keys)} client keys" if server.client_keys else "clients bring their own key"
    if any(u.api_key or u.headers for u in settings.upstreams) and not server.client_keys:
        who = "upstream keys are lent to this machine only"
    return f"listens on {server.host}:{server.port}, {who}"


def _table(settings: Settings) -> Finding:
    from trimtab.limits import Table, from_environment

    try:
        from_environment(os.environ)
        origin = Table.load(settings.limits.table).origin
    except (OSError, ValueError) as error:
        again = "make it anew with trimtab models --refresh FILE, or take `table` out of [limits]"
        return Finding("failed", "model table", f"{settings.limits.table or 'the shipped one'}: {error}; {again}")
    except ConfigError as error:
        return Finding("failed", "environment", error.message)
    return Finding("ok", "model table", f"{origin.models:,} models of {origin.date}")


def _shadowed(upstreams: tuple[UpstreamSettings, ...]) -> Iterator[Finding]:
    """Upstreams that never get a request, because an earlier one takes every model."""
    greedy = next((u for u in upstreams if "*" in u.models), None)
    if greedy is None:
        return
    for later in upstreams[upstreams.index(greedy) + 1 :]:
        said = f"never gets a request: {greedy.name} stands before it and takes every model; put it first"
        yield Finding("note", f"upstream {later.name}", said)


def _summaries(settings: Settings) -> Iterator[Finding]:
    from trimtab.upstream.routing import route

    compaction = settings.compaction
    if compaction is None:
        yield Finding("ok", "summaries", "off: the oldest turns are dropped ([compaction] turns them on)")
        return
    if compaction.model == "same":
        yield Finding("ok", "summaries", "by the model of each request")
        return
    try:
        to = route(compaction.model, settings.upstreams)
        yield Finding("ok", "summaries", f"by {compaction.model} at {to.name}")
    except TrimtabError as error:
        yield Finding("failed", "summaries", f"[compaction] model: {error.message}")


async def _answering(settings: Settings) -> AsyncIterator[Finding]:
    """What has to be asked."""
    from trimtab.upstream.client import Client

    client = Client()
    try:
        for upstream in settings.upstreams:
            yield await _upstream(client, upstream)
    finally:
        await client.aclose()
    if settings.redis is not None:
        yield await _redis(settings)


async def _upstream(client: Client, upstream: UpstreamSettings) -> Finding:
    import msgspec

    from trimtab.upstream.headers import to_upstream
    from trimtab.upstream.own_calls import OwnCalls

    what = f"upstream {upstream.name}"
    quick = msgspec.structs.replace(
        upstream,
        retries=0,
        connect_timeout_s=min(_CONNECT_S, upstream.connect_timeout_s),
        read_timeout_s=min(_READ_S, upstream.read_timeout_s),
    )
    headers = to_upstream([], upstream=upstream, content_length=0, identity=True)
    began = time.perf_counter()
    try:
        reply = await OwnCalls(client).ask(quick, "GET", "/v1/models", headers, b"", limit=_MOST_BYTES)
    except TrimtabError as error:
        return Finding("failed", what, error.message)
    took = f"{upstream.base_url}, {(time.perf_counter() - began) * 1e3:.0f} ms"
    state, said = _judged(reply.status, reply.body, upstream)
    return Finding(state, what, f"{said} ({took})")


def _judged(status: int, body: bytes, upstream: UpstreamSettings) -> tuple[Literal["ok", "note", "failed"], str]:
    """What the answer to GET /models says about an upstream."""
    if status in (401, 403):
        if upstream.api_key is None and not upstream.headers:
            return "ok", f"answers, and wants a key ({status}): clients have to send theirs"
        return "failed", f"refuses the configured key ({status}): check api_key and headers"
    if status == 404:
        return "note", "answers, and has no /models (404): if chats fail too, base_url may lack its /v1"
    if status >= 400:
        return "failed", f"answers {status} to GET /models: check base_url, and the upstream's own log"
    number = _listed(body)
    if number is None:
        return "note", f"answers {status}, but with no list of models: is base_url an OpenAI-compatible API?"
    return "ok", f"answers, {number} models" if number != 1 else "answers, 1 model"


def _listed(body: bytes) -> int | None:
    """How many models are listed, or None when it is no list."""
    import msgspec

    try:
        fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        return len(msgspec.json.decode(fields["data"], type=list[msgspec.Raw]))
    except (msgspec.DecodeError, KeyError):
        return None


_CAUSES = {
    "timeout": "no answer in time: is the address right, does a firewall drop it, is timeout_ms too short?",
    "connection": "no connection: does it run, are host, port and TLS (rediss://) right?",
    "refused": "it answers with an error: check user and password, that it takes writes, and is 6.2 or newer",
    "protocol": "what answers there does not speak Redis",
    "cluster": "no cluster answers there: use redis:// for a single server",
}


async def _redis(settings: Settings) -> Finding:
    from trimtab.store.settings import open_store
    from trimtab.summaries.settings import CompactionSettings

    causes: list[str] = []
    try:
        store = open_store(settings.redis, (settings.compaction or CompactionSettings()).memory_mb, causes.append)
    except ConfigError as error:
        return Finding("failed", "redis", error.message)
    began = time.perf_counter()
    try:
        shared = await store.ping()
        if shared:  # reading and writing need rights and a version that a ping does not
            await store.set(_PROBE_KEY, b"1", 1.0)
            await store.get(_PROBE_KEY, 1.0)
    finally:
        await store.aclose()
    if shared and not causes:
        return Finding("ok", "redis", f"answers ({(time.perf_counter() - began) * 1e3:.0f} ms)")
    fallback = "trimtab would run with an in-process store"
    return Finding("failed", "redis", f"{_CAUSES.get(causes[-1] if causes else '', 'no answer')}; {fallback}")
