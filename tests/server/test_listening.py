"""A port that cannot be had is one sentence before anything listens."""

from __future__ import annotations

import socket

import pytest

from trimtab.errors import ConfigError
from trimtab.server.listening import claim


@pytest.mark.parametrize("shares", [False, True])
def test_a_port_that_is_taken_is_refused_also_when_its_owner_would_share_it(shares: bool) -> None:
    with socket.socket() as owner:
        owner.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, int(shares))
        owner.bind(("127.0.0.1", 0))
        owner.listen()
        port = owner.getsockname()[1]
        with pytest.raises(ConfigError, match=f"127.0.0.1:{port} .*--port"):
            claim("127.0.0.1", port)
    assert claim("127.0.0.1", port) == port


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "localhost"])
def test_port_zero_is_a_free_port(host: str) -> None:
    assert claim(host, 0) > 0


@pytest.mark.parametrize("host", ["203.0.113.9", "no.such.host.invalid"])
def test_an_address_that_is_not_ours_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match="Cannot listen"):
        claim(host, 8080)
