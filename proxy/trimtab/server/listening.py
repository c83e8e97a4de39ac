"""Whether the address to listen on can be had, asked before anything is said to listen.

The server shares its port with whoever else asks for sharing (SO_REUSEPORT), so a second proxy on the same port would
start without a word and take half of the first one's requests. A socket that does not share finds both out: the port
taken by a stranger, and by one of us.
"""

from __future__ import annotations

import socket

from trimtab.errors import ConfigError


def claim(host: str, port: int) -> int:
    """The port to listen on; a free one for port 0. Raises ConfigError when it cannot be had."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port just left is no taken one
            probe.bind(address)
            probe.listen()
            return int(probe.getsockname()[1])
    except OSError as error:
        raise ConfigError(
            f"Cannot listen on {host}:{port} ({error.strerror or error}): another server may run there. Choose another "
            "with --port, or `port` in [server]."
        ) from error
