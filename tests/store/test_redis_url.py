"""Which client an address makes, and that a wrong one is refused without being quoted."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis, RedisCluster
from redis.asyncio.sentinel import SentinelConnectionPool

from trimtab.errors import ConfigError
from trimtab.store.redis_url import connect


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
    ],
)
def test_a_wrong_address_is_refused_and_not_quoted(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        connect(url)
    assert "hidden" not in str(caught.value)
    assert caught.value.param == "redis.url"
