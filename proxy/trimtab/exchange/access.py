"""Who may use the proxy: clients that send one of the configured keys, where keys are configured.

Only digests are configured and compared, so the file holds nothing that opens the door. The credential a client sends
also identifies its tenant.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from trimtab.errors import Unauthorized
from trimtab.exchange.incoming import Incoming


class Access:
    """`guarded`: clients need one of the configured keys, which is then not sent upstream."""

    def __init__(self, client_keys: Iterable[str]) -> None:
        self._digests = frozenset(key.lower() for key in client_keys)
        self.guarded = bool(self._digests)

    def check(self, incoming: Incoming) -> None:
        """Raises Unauthorized when a key is needed and none of the configured ones was sent."""
        if self.guarded and hashlib.sha256(_key(incoming).encode("latin-1")).hexdigest() not in self._digests:
            raise Unauthorized(
                "Missing or unknown client key. Send a key that the operator of this proxy issued, as "
                "`Authorization: Bearer KEY`."
            )


def credential(incoming: Incoming) -> bytes:
    """What identifies a tenant: the credential as sent, in any of its three headers; empty without one."""
    for name in (b"authorization", b"api-key", b"x-api-key"):
        if value := incoming.fields.get(name):
            return value
    return b""


def _key(incoming: Incoming) -> str:
    given = credential(incoming).decode("latin-1")
    scheme, _, rest = given.partition(" ")
    return rest.strip() if scheme.lower() == "bearer" and rest else given
