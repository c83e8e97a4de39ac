"""Which client an address makes, and that a wrong one is refused without being quoted."""

from __future__ import annotations

from pathlib import Path

import pytest
from redis.asyncio import Redis, RedisCluster
from redis.asyncio.sentinel import SentinelConnectionPool

from tests.support.certificates import self_signed
from trimtab.errors import ConfigError
from trimtab.store.redis_url import Client
from trimtab.store.redis_url import connect as connect_with
from trimtab.store.settings import RedisSettings


def connect(url: str, **settings: object) -> Client:
    return connect_with(RedisSettings(url=url, **settings))  # type: ignore[arg-type]


def test_a_standalone_address() -> None:
    client = connect("redis://user:p%40ss@example.org:6380/3")
    assert isinstance(client, Redis)
    made = client.connection_pool.connection_kwargs
    assert (made["host"], made["port"], made["db"]) == ("example.org", 6380, 3)
    assert (made["username"], made["password"]) == ("user", "p@ss")


def test_a_sentinel_address() -> None:
    client = connect("redis+sentinel://:pw@one:26379,two,[::1]:26381/main?db=2&sentinel_password=spw")
    assert isinstance(client, Redis)
    pool = client.connection_pool
    assert isinstance(pool, SentinelConnectionPool)
    assert pool.service_name == "main"
    assert pool.connection_kwargs["db"] == 2
    asked = [s.connection_pool.connection_kwargs for s in pool.sentinel_manager.sentinels]
    assert [(s["host"], s["port"]) for s in asked] == [("one", 26379), ("two", 26379), ("::1", 26381)]
    assert asked[0]["password"] == "spw"


def test_a_cluster_address() -> None:
    client = connect("redis+cluster://u:pw@one:7000,two:7001")
    assert isinstance(client, RedisCluster)
    nodes = client.nodes_manager.startup_nodes.values()
    assert {(node.host, node.port) for node in nodes} == {("one", 7000), ("two", 7001)}


@pytest.mark.parametrize("scheme", ["rediss", "rediss+cluster", "rediss+sentinel"])
def test_two_esses_mean_tls(scheme: str) -> None:
    client = connect(f"{scheme}://host/name" if "sentinel" in scheme else f"{scheme}://host")
    nodes = [*client.nodes_manager.startup_nodes.values()] if isinstance(client, RedisCluster) else []
    kind = (nodes[0] if nodes else client.connection_pool).connection_class
    assert "SSL" in kind.__name__


def test_the_sentinels_are_asked_with_tls_too(tmp_path: Path) -> None:
    authority, _ = self_signed(tmp_path)
    pool = connect("rediss+sentinel://one,two/name", ca_file=str(authority)).connection_pool
    asked = [s.connection_pool for s in pool.sentinel_manager.sentinels]
    assert ["SSL" in p.connection_class.__name__ for p in asked] == [True, True]
    assert {p.connection_kwargs["ssl_ca_certs"] for p in (pool, *asked)} == {str(authority)}


def test_options_of_redis_py_may_stand_in_the_query() -> None:
    made = connect("redis://host/3?client_name=trimtab&socket_timeout=9").connection_pool.connection_kwargs
    assert (made["client_name"], made["socket_timeout"], made["db"]) == ("trimtab", 9.0, 3)
    assert made["socket_connect_timeout"] == 2.0


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:6379",
        "http://hidden@host",
        "redis://",
        "redis://:hidden@host:port",
        "redis://:hidden@host/db",
        "redis+sentinel://:hidden@host",
        "redis+sentinel:///name",
        "redis+cluster://:hidden@",
        "redis+cluster://:hidden@host:99999999",
        "redis://:hidden@[::1",
        "redis://:hidden@one,two",
        "redis://:hidden@host?socket_timeout=soon",
        "redis://:hidden@host?no_such_option=1",
        "redis+cluster://:hidden@host?no_such_option=1",
        "redis+sentinel://:hidden@host/name?no_such_option=1",
    ],
)
def test_a_wrong_address_is_refused_and_not_quoted(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        connect(url)
    assert "hidden" not in str(caught.value)
    assert caught.value.param == "redis.url"
    assert caught.value.message.startswith("[redis] url: ")


@pytest.mark.parametrize(
    ("scheme", "content", "problem"),
    [
        ("redis", None, "the url has no TLS. Write it as rediss://"),
        ("redis+cluster", None, "the url has no TLS. Write it as rediss+cluster://"),
        ("rediss", "", "not a readable file of PEM certificates"),
        ("rediss", "no certificate", "not a readable file of PEM certificates"),
        ("rediss", None, "No such file"),
    ],
)
def test_a_ca_file_that_cannot_be_used_is_refused(
    scheme: str, content: str | None, problem: str, tmp_path: Path
) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError) as caught:
        connect(f"{scheme}://host", ca_file=str(path))
    assert caught.value.message.startswith("[redis] ca_file: ")
    assert problem in caught.value.message
    assert caught.value.param == "redis.ca_file"
