"""From `[redis]` to a redis-py client: standalone, Sentinel or Cluster. Nothing is connected here.

    redis://[user:password@]host[:port][/db]                rediss:// with TLS
    redis+sentinel://[user:password@]host:port,…/name       rediss+sentinel:// with TLS, to the Sentinels too
    redis+cluster://[user:password@]host:port,…             rediss+cluster:// with TLS

redis-py reads the login, one host and the query, so its own options work (`?protocol=3`, `?ssl_certfile=…`). This
module adds what it lacks: several hosts, and which client they are for. User and password are the data servers';
`sentinel_username` and `sentinel_password` in the query are the Sentinels'. No client retries by itself: what fails is
a miss at once, and `RedisStore` decides when to try again.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from redis.asyncio import Redis, RedisCluster, Sentinel
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from trimtab.errors import ConfigError
from trimtab.store.settings import RedisSettings

Client = Redis | RedisCluster

CONNECT_S = 2.0  # a TLS handshake over a far link takes several round trips
ANSWER_S = 1.0  # when the connection is given up; the caller has gone on long before


class _Address(NamedTuple):
    hosts: list[tuple[str, int]]
    path: str
    options: dict[str, Any]  # keyword arguments of any redis-py client


def connect(settings: RedisSettings) -> Client:
    """A client for the servers of `[redis]`. Raises ConfigError, which never quotes the address: it may hold a
    password.
    """
    scheme = settings.url.partition("://")[0]
    form = FORMS.get(scheme)
    if form is None:
        raise _refused("url", f"it must start with one of {', '.join(f'{name}://' for name in FORMS)}.")
    _check_ca_file(settings.ca_file, scheme)
    make, port = form
    try:
        return make(_parsed(settings, port))
    except (ValueError, TypeError):  # a wrong port, database or bracket; an option that redis-py does not have
        raise _refused("url", f"not a usable {scheme}:// address. Forms: {EXAMPLES}.") from None


class _Sentinels(Sentinel):
    """Asks where the primary is once for all connections that are opened at the same time."""

    _asking: asyncio.Task[tuple[str, int]] | None = None

    async def discover_master(self, service_name: str) -> tuple[str, int]:
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(super().discover_master(service_name))
            self._asking.add_done_callback(lambda task: task.cancelled() or task.exception())  # no "never retrieved"
        return await asyncio.shield(self._asking)


def _standalone(address: _Address) -> Redis:
    [(host, port)] = address.hosts
    options = {"db": int(address.path or 0)} | address.options
    return Redis(host=host, port=port, retry=_no_retry(), **options)


def _sentinel(address: _Address) -> Redis:
    if not address.path:
        raise ValueError("no name of a primary")
    options = address.options
    sentinels = _Sentinels(  # type: ignore[no-untyped-call]  # redis-py leaves this class untyped
        address.hosts,
        sentinel_kwargs={
            "username": options.pop("sentinel_username", None),
            "password": options.pop("sentinel_password", None),
            "socket_connect_timeout": CONNECT_S / 4,  # one dead Sentinel must not use up the whole wait
            "socket_timeout": ANSWER_S / 2,
            "retry": _no_retry(),
            **{name: value for name, value in options.items() if name.startswith("ssl")},
        },
    )
    client: Redis = sentinels.master_for(address.path, retry=_no_retry(), **options)
    pool: Any = client.connection_pool
    pool.make_connection()  # raises TypeError for an unknown option now, not with the first call
    return client


def _cluster(address: _Address) -> RedisCluster:
    return RedisCluster(
        startup_nodes=[ClusterNode(host, port) for host, port in address.hosts],
        require_full_coverage=False,  # one lost shard is a miss for its keys, not an outage of the others
        retry=Retry(NoBackoff(), 1),  # once more, after the topology was read again
        **address.options,
    )


# Each scheme: what makes its client, and the port of a host that names none.
FORMS: Final[dict[str, tuple[Callable[[_Address], Client], int]]] = {
    "redis": (_standalone, 6379),
    "rediss": (_standalone, 6379),
    "redis+sentinel": (_sentinel, 26379),
    "rediss+sentinel": (_sentinel, 26379),
    "redis+cluster": (_cluster, 6379),
    "rediss+cluster": (_cluster, 6379),
}
EXAMPLES: Final = "redis://host:6379/0, redis+sentinel://host:26379,host:26379/name, redis+cluster://host:6379"


def _parsed(settings: RedisSettings, port: int) -> _Address:
    """The address as redis-py reads it, host by host. Raises ValueError."""
    url = urlsplit(settings.url)
    scheme = url.scheme.partition("+")[0]
    login, at, hosts = url.netloc.rpartition("@")
    read: list[dict[str, Any]] = [
        dict(parse_url(f"{scheme}://{login}{at}{host}?{url.query}")) for host in hosts.split(",") if host
    ]
    if not read:
        raise ValueError("no host")
    options: dict[str, Any] = {"socket_connect_timeout": CONNECT_S, "socket_timeout": ANSWER_S}
    options |= {name: value for name, value in read[0].items() if name not in ("host", "port", "connection_class")}
    options |= {"max_connections": settings.max_connections, "ssl": scheme == "rediss"}
    if settings.ca_file:
        options["ssl_ca_certs"] = settings.ca_file
    return _Address([(host["host"], host.get("port", port)) for host in read], url.path.strip("/"), options)


def _check_ca_file(path: str | None, scheme: str) -> None:
    """Raises ConfigError now: redis-py reads the file when it connects, and that would be a miss."""
    if not path:
        return
    if not scheme.startswith("rediss"):
        raise _refused("ca_file", f"the url has no TLS. Write it as {scheme.replace('redis', 'rediss', 1)}://…")
    try:
        ssl.create_default_context(cafile=path)
    except OSError as error:  # ssl.SSLError is one
        raise _refused("ca_file", f"{path} is not a readable file of PEM certificates ({error}).") from error


def _refused(key: str, problem: str) -> ConfigError:
    return ConfigError(f"[redis] {key}: {problem}", param=f"redis.{key}")


def _no_retry() -> Retry:
    return Retry(NoBackoff(), 0)
