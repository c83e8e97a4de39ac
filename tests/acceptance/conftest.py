"""A real server for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.valkey import Valkey


@pytest.fixture
def redis() -> Iterator[Valkey]:
    """One server of this test alone."""
    server = Valkey()
    yield server
    server.thaw()
    server.stop()
