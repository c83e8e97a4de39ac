"""`trimtab check`: is the configuration valid, and does everything it names answer?

Each line is one finding, with what to do about it; the exit code is 1 when one failed. Upstreams are called with the
server's own client, so that a bad certificate or a proxy in between fails here as it would there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
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
_MOST_BYTES = 8 << 20  # of a listing of models; the longest known one has a megabyte


State = Literal["ok", "note", "failed"]


class Finding(NamedTuple):
    """One line of the output. A `note` is worth reading, but not a failure."""

    state: State
    subject: str
    text: str


@click.command()
@config_options
def check(config: str | None, upstream: str | None) -> None:
    """Check the configuration, and that the upstreams and Redis answer.

    \b
      trimtab check --upstream http://localhost:11434/v1
      trimtab check --config trimtab.toml && trimtab serve --config trimtab.toml

    Each line begins with ok, note or failed, and says what to do. The exit code is 1 when something failed. No model is
    run: the only request to an upstream is GET /models.
    """
    failed = asyncio.run(_run(config, upstream))
    click.get_current_context().exit(1 if failed else 0)


async def _run(config: str | None, upstream: str | None) -> int:
    """Print each finding as soon as it is known, and return how many failed."""
    try:
        settings = settings_of(config, upstream)
    except ConfigError as error:
        for line in error.message.splitlines():
            _print(Finding("failed", "configuration", line))
        return 1
    failed = 0
    for finding in _check_settings(settings, config):
        failed += _print(finding)
    async for finding in _check_servers(settings):
        failed += _print(finding)
    return failed


def _print(finding: Finding) -> bool:
    colour = {"ok": "green", "note": "yellow", "failed": "red"}[finding.state]
    click.echo(f"{click.style(f'{finding.state:<6}', fg=colour)}  {finding.subject}: {finding.text}")
    return finding.state == "failed"


def _check_settings(settings: Settings, config: str | None) -> Iterator[Finding]:
    """What can be checked without a request: the checks of the server's own start."""
    from trimtab.server.startup import CHECKS, failing

    yield Finding("ok", "configuration", f"{config} is valid" if config else "no file, built-in defaults")
    failed = dict(failing(settings))
    for name in CHECKS:
        if name in failed:
            yield Finding("failed", name, failed[name])
        elif name in _RIGHT:
            yield Finding("ok", name, _RIGHT[name](settings))
    yield from _check_order(settings.upstreams)


def _exposure(settings: Settings) -> str:
    server = settings.server
    keys = f"accepts {len(server.client_keys)} client keys" if server.client_keys else "clients send their own key"
    if any(u.api_key or u.headers for u in settings.upstreams) and not server.client_keys:
        keys = "the upstreams' keys can be used from this machine only"
    return f"listens on {server.host}:{server.port}, {keys}"


def _table(settings: Settings) -> str:
    from trimtab.limits import Table

    origin = Table.load(settings.limits.table).origin
    return f"{origin.models:,} models of {origin.date}"


def _summaries(settings: Settings) -> str:
    from trimtab.upstream.routing import route

    compaction = settings.compaction
    if compaction is None:
        return "off, the oldest turns are dropped; [compaction] turns them on"
    if compaction.model == "same":
        return "written by the model of each request"
    return f"written by {compaction.model} at {route(compaction.model, settings.upstreams).name}"


# What is right, by the name of its check; what has nothing to tell is left out.
_RIGHT: dict[str, Callable[[Settings], str]] = {
    "exposure": _exposure,
    "model table": _table,
    "summaries": _summaries,
}


def _check_order(upstreams: tuple[UpstreamSettings, ...]) -> Iterator[Finding]:
    """A note for each upstream that never gets a request, because an earlier one takes every model."""
    greedy = next((u for u in upstreams if "*" in u.models), None)
    if greedy is None:
        return
    for later in upstreams[upstreams.index(greedy) + 1 :]:
        text = f"never gets a request, because {greedy.name} comes first and takes every model. Put {later.name} first."
        yield Finding("note", f"upstream {later.name}", text)


async def _check_servers(settings: Settings) -> AsyncIterator[Finding]:
    """What needs a request: every upstream, and Redis."""
    from trimtab.upstream.client import Client

    client = Client()
    try:
        for upstream in settings.upstreams:
            yield await _check_upstream(client, upstream)
    finally:
        await client.aclose()
    if settings.redis is not None:
        yield await _check_redis(settings)


async def _check_upstream(client: Client, upstream: UpstreamSettings) -> Finding:
    import msgspec

    from trimtab.upstream.headers import to_upstream
    from trimtab.upstream.own_calls import OwnCalls

    subject = f"upstream {upstream.name}"
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
        return Finding("failed", subject, error.message)
    took = f"{upstream.base_url}, {(time.perf_counter() - began) * 1e3:.0f} ms"
    state, text = _judge(reply.status, reply.body, upstream)
    return Finding(state, subject, f"{text} ({took})")


def _judge(status: int, body: bytes, upstream: UpstreamSettings) -> tuple[State, str]:
    """What the answer to GET /models says about an upstream."""
    if status in (401, 403):
        if upstream.api_key is None and not upstream.headers:
            return "ok", f"answers {status} without a key: clients must send theirs"
        return "failed", f"rejects the configured key with {status}: check api_key and headers"
    if status == 404:
        return "note", "answers 404 to GET /models: if chat requests fail too, base_url may lack its /v1"
    if status >= 400:
        return "failed", f"answers {status} to GET /models: check base_url and the upstream's log"
    number = _models_in(body)
    if number is None:
        return "note", f"answers {status} without a list of models: check that base_url is an OpenAI-compatible API"
    return "ok", f"answers, {number} models" if number != 1 else "answers, 1 model"


def _models_in(body: bytes) -> int | None:
    """How many models a listing has, or None when `body` is not a listing."""
    import msgspec

    try:
        fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        return len(msgspec.json.decode(fields["data"], type=list[msgspec.Raw]))
    except (msgspec.DecodeError, KeyError):
        return None


# By the word that the store reports for a failed call.
_CAUSES = {
    "timeout": "did not answer in time: check the address, firewalls, and timeout_ms",
    "connection": "cannot be reached: check that it runs, host, port and TLS (rediss://, ca_file), user and password",
    "refused": "answered with an error: check user and password, that it accepts writes, and that it is 6.2 or newer",
    "protocol": "does not speak the Redis protocol: check host and port",
    "cluster": "is not a cluster: use redis:// for a single server",
}


async def _check_redis(settings: Settings) -> Finding:
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
        if shared:  # reading and writing need rights and a version that a ping does not need
            await store.set(_PROBE_KEY, b"1", 1.0)
            await store.get(_PROBE_KEY, 1.0)
    finally:
        await store.aclose()
    if shared and not causes:
        return Finding("ok", "redis", f"answers ({(time.perf_counter() - began) * 1e3:.0f} ms)")
    cause = _CAUSES.get(causes[-1] if causes else "", "did not answer")
    return Finding("failed", "redis", f"{cause}. Without Redis, trimtab uses a store in its own process.")
