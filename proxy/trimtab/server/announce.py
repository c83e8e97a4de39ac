"""What the server says of its own life: started, draining, stopped.

For a person three short lines on standard error; where the log is JSON, an event in the log, because whatever collects
it would trip over lines that are not.
"""

from __future__ import annotations

import sys
from typing import Any

from trimtab import __version__
from trimtab.server.parts import Parts


def started(parts: Parts, url: str, metrics: str, config: str, redis: str) -> None:
    """Say where the server listens (`url`) and sends to, its version, its configuration file, and what is on. `redis`
    is a clause, empty where no Redis is configured."""
    upstreams = {upstream.name: upstream.base_url for upstream in parts.settings.upstreams}
    summaries, page = _summaries(parts), f"{url}/ui" if parts.ring is not None else ""
    sends_to = ", ".join(upstreams.values())
    lines = (
        f"trimtab {__version__} listens on {url}/v1 and sends to {sends_to}",
        f"configuration: {config or 'none, the defaults'}; summaries: {summaries}{f'; {redis}' if redis else ''}",
        f"health: {url}/healthz/ready, metrics: {metrics}/metrics{f', page: {page}' if page else ''}",
    )
    found = {"version": __version__, "url": f"{url}/v1", "upstreams": upstreams, "config": config}
    _say(parts, "started", found | {"summaries": summaries, "redis": redis, "page": page}, "\n".join(lines))


def draining(parts: Parts) -> None:
    """Say what a server that was asked to stop waits for."""
    server, open_now = parts.settings.server, parts.load.requests
    requests = "1 request" if open_now == 1 else f"{open_now} requests"
    text = (
        f"stopping: new requests are taken for {server.drain_s:g} s more (drain_s); then open ones, {requests} now, "
        f"get up to {server.grace_s:g} s (grace_s). Ctrl-C again stops at once."
    )
    found = {"in_flight": open_now, "drain_s": server.drain_s, "grace_s": server.grace_s}
    _say(parts, "draining", found, text)


def stopped(parts: Parts, cut_off: int) -> None:
    """Say that the server has stopped. `cut_off`: requests that did not finish in time."""
    _say(parts, "stopped", {"cut_off": cut_off}, f"stopped{f', {cut_off} requests were cut off' if cut_off else ''}")


def _summaries(parts: Parts) -> str:
    compaction = parts.settings.compaction
    if compaction is None:
        return "off"
    return "by the model of each request" if compaction.model == "same" else f"by {compaction.model}"


def _say(parts: Parts, event: str, found: dict[str, Any], text: str) -> None:
    log = parts.telemetry.log
    if log.is_json:
        log.event(event, **{name: value for name, value in found.items() if value not in ("", None)})
    if not log.is_json or sys.stderr.isatty():
        print(text, file=sys.stderr, flush=True)
