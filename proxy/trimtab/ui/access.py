"""Who may read the pages' data. The page itself holds none and is open; everything under `/ui/api` asks here first.

With keys configured, a request needs one of them, in its Authorization header: never a cookie, so no other site can
make a browser send it. Without keys the server listens on loopback only, and what still might come from elsewhere is
refused: a page of another site, a name that an attacker points at this machine (DNS rebinding), a reverse proxy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from trimtab.errors import Forbidden, Unauthorized

_LOOPBACK_NAMES = ("127.0.0.1", "[::1]", "localhost")
_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")
_OWN_SITE = ("same-origin", "none", "")  # Sec-Fetch-Site: our page, a typed address, a program


class PageAccess:
    """Checks the headers of requests to `/ui/api`. `keys` are SHA-256 digests in hex."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._digests = frozenset(key.lower() for key in keys)

    def check(self, headers: Mapping[str, str]) -> None:
        """Raises Unauthorized without a key where one is needed, Forbidden for what does not come from this machine's
        own pages and programs. Names of `headers` are in lower case."""
        if headers.get("sec-fetch-site", "") not in _OWN_SITE:
            raise Forbidden("The data of /ui is for its own page, and was asked for by a page of another site.")
        if self._digests:
            return self._check_key(headers.get("authorization", ""))
        host = headers.get("host", "")
        if host.rpartition(":")[0] not in _LOOPBACK_NAMES and host not in _LOOPBACK_NAMES:
            raise Forbidden("Open /ui by a loopback address, such as http://127.0.0.1:8080/ui, or set keys in [ui].")
        if any(name in headers for name in _FORWARDED):
            raise Forbidden("This request came through another proxy. Set keys in [ui] to show /ui behind one.")

    def _check_key(self, authorization: str) -> None:
        scheme, _, key = authorization.partition(" ")
        given = hashlib.sha256(key.strip().encode("latin-1", "replace")).hexdigest()
        if scheme.lower() != "bearer" or given not in self._digests:
            raise Unauthorized(
                "Missing or unknown key. Send a key of [ui] as `Authorization: Bearer KEY`; the page asks for it."
            )
