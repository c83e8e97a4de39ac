"""Values as they are in the store: sealed under a key that only the tenant's own requests can derive.

A tenant is everyone who sends the same credential (see `exchange.access.tenant`). HKDF-SHA256 makes two
things of it: an id, which goes into the keys of the tenant's values and does not reveal the credential, and a key for
AES-GCM. The store's key is authenticated with the value, so a value that was moved to another key, sealed by another
tenant or altered does not open: a miss. Requests without a credential are one anonymous tenant, whose key exists only
in this process, unless the operator sets a `secret`; with a secret, reading a value takes both. A new secret or
credential makes every older value a miss.
"""

from __future__ import annotations

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

FORMAT = b"\x01"  # first byte of a value, and part of what is authenticated
NONCE = 12  # bytes; random, so one key may seal some 2^32 values (NIST SP 800-38D, 8.3)
TAG = 16  # bytes


class Tenant:
    """One tenant: `id` (32 bytes, safe as part of a key in the store), and the power to seal and open its values."""

    __slots__ = ("_cipher", "id")

    def __init__(self, derived: bytes) -> None:
        self.id = derived[32:]
        self._cipher = AESGCM(derived[:32])

    def seal(self, key: str, text: bytes) -> bytes:
        """`text`, sealed for `key`; 29 bytes longer."""
        nonce = os.urandom(NONCE)
        return FORMAT + nonce + self._cipher.encrypt(nonce, text, FORMAT + key.encode())

    def open(self, key: str, value: bytes | None) -> bytes | None:
        """What this tenant sealed for `key`; None for anything else."""
        if value is None or value[:1] != FORMAT or len(value) < 1 + NONCE + TAG:
            return None
        nonce, sealed = value[1 : 1 + NONCE], value[1 + NONCE :]
        try:
            return self._cipher.decrypt(nonce, sealed, FORMAT + key.encode())
        except InvalidTag:
            return None


class Keyring:
    """Derives tenants. Holds the operator's secret, if there is one, and the key of the anonymous tenant, which ends
    with the process.
    """

    __slots__ = ("_anonymous", "_purpose", "_secret")

    def __init__(self, secret: str = "", purpose: bytes = b"summaries/v1") -> None:
        """`purpose`: what is sealed; keys for one purpose open nothing of another."""
        self._secret, self._purpose = secret.encode(), purpose
        self._anonymous = b"" if secret else os.urandom(32)

    def tenant(self, credential: bytes) -> Tenant:
        """The tenant of a credential; an empty one is the anonymous tenant. Takes some 20 µs."""
        owner = b"known:" + credential if credential else b"anonymous:" + self._anonymous
        salt = b"trimtab\x00" + self._secret
        return Tenant(HKDF(algorithm=SHA256(), length=64, salt=salt, info=self._purpose).derive(owner))
