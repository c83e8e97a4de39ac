"""Real servers, started once per process and emptied before each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.valkey import Cluster, Valkey, Watched


@pytest.fixture(scope="session")
def _valkey() -> Iterator[Valkey]:
    server = Valkey()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def _cluster() -> Iterator[Cluster]:
    servers = Cluster()
    yield servers
    servers.stop()


@pytest.fixture(scope="session")
def _watched() -> Iterator[Watched]:
    servers = Watched()
    yield servers
    servers.stop()


@pytest.fixture
def valkey(_valkey: Valkey) -> Valkey:
    """One server, empty."""
    _valkey.client().flushall()
    return _valkey


@pytest.fixture
def cluster(_cluster: Cluster) -> Cluster:
    """Three primaries, empty."""
    for node in _cluster.masters:
        node.client().flushall()
    return _cluster


@pytest.fixture
def watched(_watched: Watched) -> Watched:
    """A primary, its replica and a Sentinel, empty."""
    _watched.primary.client().flushall()
    return _watched
