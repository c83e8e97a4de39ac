"""Values as they lie in the store: sealed under a key that only the tenant's own requests can derive.

A tenant is whoever sends one credential (the bytes of the `Authorization` header). From it come, by
HKDF-SHA256, an id, which names the tenant's values without telling the credential, and a key for AES-GCM.
The name of the value is authenticated with it, so a value moved to another name, made by another tenant or
altered does not open: a miss. Without a credential there is one anonymous tenant, whose key lives and dies
with this process, unless the operator set a `secret`; with a secret, reading values takes both. Rotating
either makes every older value a miss.
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
    """One tenant's `id` (32 bytes, safe to put in a name) and the power to seal and open its values."""

    __slots__ = ("_cipher", "id")

    def __init__(self, derived: bytes) -> None:
        self.id = derived[32:]
        self._cipher = AESGCM(derived[:32])

    def seal(self, name: str, text: bytes) -> bytes:
        """`text`, sealed for the place `name`. Longer by 29 bytes."""
        nonce = os.urandom(NONCE)
        return FORMAT + nonce + self._cipher.encrypt(nonce, text, FORMAT + name.encode())

    def open(self, name: str, value: bytes | None) -> bytes | None:
        """What was sealed for `name` by this tenant; None for anything else."""
        if value is None or value[:1] != FORMAT or len(value) < 1 + NONCE + TAG:
            return None
        nonce, sealed = value[1 : 1 + NONCE], value[1 + NONCE :]
        try:
            return self._cipher.decrypt(nonce, sealed, FORMAT + name.encode())
        except InvalidTag:
            return None


class Keyring:
    """Derives tenants. Holds the operator's secret, if there is one, and the anonymous tenant's passing
    key.
    """

    __slots__ = ("_anonymous", "_secret")

    def __init__(self, secret: str = "") -> None:
        self._secret = secret.encode()
        self._anonymous = b"" if secret else os.urandom(32)

    def tenant(self, credential: bytes) -> Tenant:
        """The tenant of a credential; an empty one is the anonymous tenant. Some 20 µs."""
        owner = b"known:" + credential if credential else b"anonymous:" + self._anonymous
        salt = b"trimtab\x00" + self._secret
        return Tenant(HKDF(algorithm=SHA256(), length=64, salt=salt, info=b"summaries/v1").derive(owner))
