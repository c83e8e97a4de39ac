"""Who may use the proxy: clients that send one of the configured keys, where keys are configured.

Only digests are configured and compared, so the file holds nothing that opens the door. What a client sends to be
recognized, by this proxy, the upstream or a gateway before it, also identifies its tenant.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator

from trimtab.errors import Unauthorized
from trimtab.exchange.incoming import Incoming
from trimtab.exchange.spellings import is_azure
from trimtab.wire.request import Carried

# Each may be all that tells two clients apart: Gemini's key, Portkey's key beside a provider's.
_KEYS = (b"authorization", b"api-key", b"x-api-key", b"x-goog-api-key", b"x-portkey-api-key")
# Cookies of load balancers, bot filters and statistics: they change while the client stays the same.
_PASSING_COOKIE = re.compile(
    rb"^(?:__cf|_cf|cf_|awsalb|awselb|arraffinity|_ga|_gid|incap_|visid_|ak_bmsc|bm_|datadome)", re.IGNORECASE
)


# Of one request alone: an answer to it that is repeated, its id, what it may be answered with.
_NOT_CARRIED = frozenset(
    {
        b"accept",
        b"accept-encoding",
        b"expect",
        b"idempotency-key",
        b"range",
        b"te",
        b"transfer-encoding",
        b"x-request-id",
    }
)


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
    """The credential as sent, in any of its three headers; empty without one."""
    fields = incoming.fields
    for name in (b"authorization", b"api-key", b"x-api-key"):
        if fields.get(name):
            return fields[name]
    return b""


def carried(incoming: Incoming) -> Carried:
    """What a call of our own takes over from a request, so that a gateway routes, bills and admits it as this one."""
    headers = tuple([pair for pair in incoming.headers if _is_carried(pair[0])])
    return Carried(headers, incoming.query, incoming.path if is_azure(incoming.path) else "")


def _is_carried(name: bytes) -> bool:
    return name not in _NOT_CARRIED and not name.startswith((b"content-", b"if-", b"x-trimtab-"))


def tenant(incoming: Incoming) -> bytes:
    """What identifies a tenant: all that the client sent to be recognized. The credential alone, where that is all;
    empty without any."""
    fields = incoming.fields
    parts = [name + b": " + fields[name] for name in _KEYS if name in fields if fields[name]]
    if b"cookie" in fields:
        parts += sorted(_lasting_cookies(fields[b"cookie"]))
    if query := incoming.query:
        parts += [b"?" + part for part in query.split(b"&") if part[:4].lower() == b"key=" and part[4:]]
    if len(parts) == 1 and (primary := credential(incoming)):
        return primary
    return b"\n".join(parts)


def _lasting_cookies(cookie: bytes) -> Iterator[bytes]:
    pairs = (pair.strip() for pair in cookie.split(b";"))
    return (b"cookie: " + pair for pair in pairs if pair and not _PASSING_COOKIE.match(pair))


def _key(incoming: Incoming) -> str:
    given = credential(incoming).decode("latin-1")
    scheme, _, rest = given.partition(" ")
    return rest.strip() if scheme.lower() == "bearer" and rest else given
