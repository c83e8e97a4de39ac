"""Putting the house together: from the settings to the parts of a running proxy, and their orderly end."""

from __future__ import annotations

import os

from proxy import __version__
from proxy.exchange.access import Access
from proxy.exchange.gateway import Gateway
from proxy.exchange.policies import Policies
from proxy.limits import Limits, from_environment
from proxy.server.asgi import Front, Load
from proxy.settings import Settings
from proxy.telemetry import Telemetry, open_telemetry
from proxy.upstream.client import Client

_MB = 1 << 20


class Parts:
    """Everything one process holds. Made once; `aclose` when the server stops."""

    def __init__(self, settings: Settings) -> None:
        server = settings.server
        self.settings = settings
        self.telemetry: Telemetry = open_telemetry(
            settings.telemetry, version=__version__, models=[m for m in settings.models if not set(m) & set("*?[")]
        )
        self.client = Client()
        self.limits = Limits(settings.models, environment=from_environment(os.environ))
        self.load = Load(server.max_in_flight, server.max_in_flight_mb * _MB)
        self.gateway = Gateway(
            settings.upstreams,
            self.client,
            self.limits,
            Policies(settings.shaping, settings.all_profiles, settings.compaction),
            self.telemetry,
            Access(server.client_keys),
        )
        self.front = Front(self.gateway, self.load, server.max_body_mb * _MB)

    async def aclose(self) -> None:
        """Close connections and send what telemetry still holds."""
        await self.client.aclose()
        self.telemetry.close()
