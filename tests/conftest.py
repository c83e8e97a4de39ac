"""What every test may use: the event loop of the async tests, the folder of shared inputs, real Redis servers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.valkey import Cluster, Valkey, Watched

# Where a failure must say something about the change, examples are the same in every run; at a desk they are new.
# How long one took says more of the machine's other work than of the law it is tried on.
settings.register_profile("desk", deadline=None)
settings.register_profile("ci", derandomize=True, print_blob=True, deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "desk")

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder `shared` beside the checkout ; a test that needs it is skipped without it."""
    if not SHARED.is_dir():
        pytest.skip("the folder `shared` (cases, corpus, arena) does not lie beside this checkout")
    return SHARED


# -- real servers, started once per process and emptied before each test


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
