"""From an address to a redis-py client: standalone, Sentinel or Cluster. Nothing is connected here.

    redis://[user:password@]host[:port][/db]                    rediss:// with TLS
    redis+sentinel://[user:password@]host:port,…/name[?db=1]    rediss+sentinel:// with TLS
    redis+cluster://[user:password@]host:port,…                 rediss+cluster:// with TLS

User and password are the data servers'; `sentinel_username` and `sentinel_password` in the query are the
Sentinels'. No client retries by itself: what fails is a miss at once, and `RedisStore` decides when to try
again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from redis.asyncio import Redis, RedisCluster, Sentinel
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from trimtab.errors import ConfigError

Client = Redis | RedisCluster

CONNECT_S = 2.0  # a TLS handshake over a far link takes several round trips
ANSWER_S = 1.0  # when the connection is given up; the caller has long gone on by then
SENTINEL_PORT = 26379


def connect(url: str, max_connections: int = 32) -> Client:
    """A client for the address. Raises ConfigError, which never quotes it: it may hold a password."""
    scheme = url.partition("://")[0]
    opener = OPENERS.get(scheme)
    if opener is None:
        known = ", ".join(f"{name}://" for name in OPENERS)
        raise ConfigError(f"[redis] url: it must start with one of {known}", param="redis.url")
    try:
        return opener(urlsplit(url), max_connections)
    except ValueError:  # a port that is no number, a database that is none, an unbalanced bracket
        raise ConfigError(f"[redis] url: not a usable {scheme}:// address", param="redis.url") from None


class _Sentinels(Sentinel):
    """Asks where the primary is once for all connections that are opened at the same time."""

    _asking: asyncio.Task[tuple[str, int]] | None = None

    async def discover_master(self, service_name: str) -> tuple[str, int]:
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(super().discover_master(service_name))
            self._asking.add_done_callback(lambda asked: asked.cancelled() or asked.exception())  # seen, if by none
        return await asyncio.shield(self._asking)


def _standalone(parts: SplitResult, max_connections: int) -> Redis:
    if not parts.hostname:
        raise ValueError("no host")
    return Redis(
        host=parts.hostname,
        port=parts.port or 6379,
        db=int(parts.path.strip("/") or 0),
        max_connections=max_connections,
        retry=_once(),
        **_shared(parts),
    )


def _sentinel(parts: SplitResult, max_connections: int) -> Redis:
    name, query = parts.path.strip("/"), parse_qs(parts.query)
    if not name:
        raise ValueError("no name of a master")
    sentinels = _Sentinels(  # type: ignore[no-untyped-call]  # redis-py leaves this class untyped
        _hosts(parts, SENTINEL_PORT),
        sentinel_kwargs={
            "username": query.get("sentinel_username", [None])[0],
            "password": query.get("sentinel_password", [None])[0],
            "socket_connect_timeout": CONNECT_S / 4,  # one dead Sentinel must not use up the whole wait
            "socket_timeout": ANSWER_S / 2,
            "retry": _once(),
        },
    )
    db = int(query.get("db", ["0"])[0])
    client: Redis = sentinels.master_for(name, db=db, max_connections=max_connections, retry=_once(), **_shared(parts))
    return client


def _cluster(parts: SplitResult, max_connections: int) -> RedisCluster:
    return RedisCluster(
        startup_nodes=[ClusterNode(host, port) for host, port in _hosts(parts, 6379)],
        max_connections=max_connections,
        require_full_coverage=False,  # one lost shard is a miss for its keys, not an outage of the others
        retry=Retry(NoBackoff(), 1),  # once more, after the topology was read anew
        **_shared(parts),
    )


OPENERS: dict[str, Callable[[SplitResult, int], Client]] = {
    "redis": _standalone,
    "rediss": _standalone,
    "redis+sentinel": _sentinel,
    "rediss+sentinel": _sentinel,
    "redis+cluster": _cluster,
    "rediss+cluster": _cluster,
}


def _shared(parts: SplitResult) -> dict[str, Any]:
    return {
        "username": unquote(parts.username) if parts.username else None,
        "password": unquote(parts.password) if parts.password else None,
        "ssl": parts.scheme.startswith("rediss"),
        "socket_connect_timeout": CONNECT_S,
        "socket_timeout": ANSWER_S,
    }


def _once() -> Retry:
    return Retry(NoBackoff(), 0)


def _hosts(parts: SplitResult, default_port: int) -> list[tuple[str, int]]:
    found = [_host(item, default_port) for item in parts.netloc.rpartition("@")[2].split(",") if item]
    if not found:
        raise ValueError("no host")
    return found


def _host(item: str, default_port: int) -> tuple[str, int]:
    """`host:port`, `host`, or `[v6]:port`."""
    part = urlsplit(f"//{item}")
    if not part.hostname:
        raise ValueError("no host")
    return part.hostname, part.port or default_port
