"""Running the server: listen, and stop without losing an answer.

On SIGTERM readiness fails at once, so that a load balancer looks elsewhere; requests are still taken for `drain_s`;
then new ones are turned away while open ones get `grace_s` to finish. A second signal stops at once.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable
from contextlib import suppress

import uvloop
from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.server.embed import Server
from litestar.types import ASGIApp

from trimtab.errors import ConfigError
from trimtab.exchange.incoming import STOPPING
from trimtab.server import announce, garbage
from trimtab.server.app import create_app, create_metrics_app
from trimtab.server.parts import Parts
from trimtab.server.reload import Reloader
from trimtab.server.startup import check_startable
from trimtab.settings import Settings

# Bytes of a request's headers: enough for long cookies and tracing baggage, as nginx's large buffers.
_HEADER_BUFFER = 128 * 1024

# Seconds that connections get to close once no request is in flight. A client that sent half of its headers would hold
# its connection for `idle_timeout_s`, and one that does not read its answer forever.
_CLOSING_S = 5.0


def serve(settings: Settings, config: str = "", read: Callable[[], Settings] | None = None) -> None:
    """Listen until a signal comes. `config` is the name of the file that `settings` are from, to be shown; `read`
    reads it again on SIGHUP. Raises ConfigError."""
    check_startable(settings)
    uvloop.run(_serve(settings, config, read))


def address(host: str, port: int) -> str:
    """The URL of an address; IPv6 goes in brackets (RFC 3986 §3.2.2)."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def claim(host: str, port: int, shared: bool = False) -> int:
    """The port to listen on; a free one for port 0. Raises ConfigError when the address cannot be used.

    The server shares its port with any process that also sets SO_REUSEPORT, so a second proxy on the same port would
    start and take half of the first one's requests. A probe without that option finds both: a port that another
    program uses, and one that another proxy uses. `shared`: another proxy may use it.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port that was just left is free
            if shared:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            probe.bind(address)
            probe.listen()
            return int(probe.getsockname()[1])
    except OSError as error:
        raise ConfigError(
            f"Cannot listen on {host}:{port} ({error.strerror or error}): another server may use it. Choose another "
            "port with --port, or `port` (for metrics, `metrics_port`) in [server]."
        ) from error


async def _serve(settings: Settings, config: str, read: Callable[[], Settings] | None) -> None:
    host, port = settings.server.host, claim(settings.server.host, settings.server.port, settings.server.share_port)
    metrics = _metrics_address(settings)
    parts = Parts(settings)
    listeners = [_listener(create_app(parts), host, port, settings)]
    if metrics is not None:
        listeners.append(_listener(create_metrics_app(parts), *metrics, settings))
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGHUP, Reloader(parts, read or (lambda: settings)).begin)
    running, *others = [asyncio.ensure_future(listener.serve()) for listener in listeners]
    url = address(host, port)
    announce.started(parts, url, address(*metrics) if metrics else url, config, await parts.start())
    garbage.settle()
    searching = asyncio.ensure_future(garbage.search(parts.load))
    waiting = asyncio.ensure_future(stop.wait())
    await asyncio.wait((running, *others, waiting), return_when=asyncio.FIRST_COMPLETED)
    if waiting.done():
        announce.draining(parts)
        await _drain(parts, stop)
    searching.cancel()
    open_still = parts.load.requests
    for listener in listeners:
        listener.stop()  # type: ignore[no-untyped-call]
    await _closed(running, parts)
    await asyncio.gather(*others)
    announce.stopped(parts, open_still)


def _metrics_address(settings: Settings) -> tuple[str, int] | None:
    """Where metrics have a listener of their own. Raises ConfigError when the address cannot be had, or when there is
    none and the port is shared: whoever answers there would show its own metrics."""
    server = settings.server
    if server.metrics_port is None:
        if server.share_port:
            raise ConfigError(
                "[server] share_port: each process needs its own port for metrics and health. Pass --metrics-port, or "
                "set metrics_port in [server]."
            )
        return None
    host = server.metrics_host or server.host
    return host, claim(host, server.metrics_port)


def _listener(app: ASGIApp, host: str, port: int, settings: Settings) -> Server:
    """An HTTP server that is not yet started.

    granian has one timer for a connection, from the end of an answer to the end of the next request's headers. So it is
    the idle timeout and the time headers may take; headers that begin when it is nearly over are cut.
    """
    idle_ms = round(settings.server.idle_timeout_s * 1000)
    return Server(
        app,
        address=host,
        port=port,
        interface=Interfaces.ASGI,
        http=HTTPModes.http1,
        http1_settings=HTTP1Settings(header_read_timeout=idle_ms, max_buffer_size=_HEADER_BUFFER * 4),
        websockets=False,
        backlog=2048,
        backpressure=settings.server.max_in_flight * 2 + 1000,
        log_enabled=False,
    )


async def _closed(running: asyncio.Future[None], parts: Parts) -> None:
    """Wait for the connections to close, but not forever for clients that never finish their requests."""
    await asyncio.wait((running,), timeout=_CLOSING_S)
    if running.done():
        return running.result()
    running.cancel()
    await asyncio.wait((running,))
    await parts.aclose()


async def _drain(parts: Parts, stop: asyncio.Event) -> None:
    """Let open requests finish, in bounded time."""
    server = parts.settings.server
    stop.clear()
    parts.load.leaving = True
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), server.drain_s)
    parts.load.draining = True
    idle, again = asyncio.ensure_future(parts.load.idle()), asyncio.ensure_future(stop.wait())
    await asyncio.wait((idle, again), timeout=server.grace_s, return_when=asyncio.FIRST_COMPLETED)
    idle.cancel()
    again.cancel()
    parts.watches.cancel(STOPPING)  # the server stops only once nothing is in flight
