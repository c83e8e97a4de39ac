"""What an operator may set for the pages under `/ui`: whether they are served, to whom, and whether they show text."""

from __future__ import annotations

import msgspec

from trimtab.units import Count


class UiSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The table `[ui]`. `enabled`: None serves the pages where the server listens on loopback only.

    `keys` are SHA-256 digests, in hex, of the keys that open the pages; without any, they are open to whoever reaches
    the server, which is allowed on loopback only. `text` keeps the bodies of the newest `keep_text` requests in memory,
    at most `text_mb` megabytes of them, and shows them.
    """

    enabled: bool | None = None
    keys: tuple[str, ...] = ()
    keep: Count = 500  # exchanges
    text: bool = False
    keep_text: Count = 20  # requests
    text_mb: Count = 64  # megabytes of bodies, before and after

    def served_at(self, *, loopback: bool) -> bool:
        """Whether the pages are served by a server that listens on loopback only, or elsewhere too."""
        return loopback if self.enabled is None else self.enabled
