"""Names in the store. A name is a digest over everything that decides what the value says.

Every field goes in with its length before it, so no two lists of fields run together to the same bytes. The
prefix carries a version: a newer format reads none of the older names, and those simply expire.
"""

from __future__ import annotations

import hashlib

VERSION = "v1"
PREFIX = f"trimtab:{VERSION}:"


def fields_digest(*fields: bytes) -> bytes:
    """SHA-256 (32 bytes) over the fields, each with its length as 8 bytes before it."""
    digest = hashlib.sha256()
    for field in fields:
        digest.update(len(field).to_bytes(8, "big"))
        digest.update(field)
    return digest.digest()


def summary_key(tenant_id: bytes, model: str, prompt_version: str, policy: str, chain: bytes) -> str:
    """The name of one summary.

    `chain` is the digest over all messages it stands for; `model` the one that writes it; `prompt_version`
    covers the hint, the prompt's text and how messages are rendered; `policy` the settings that shape the
    text.
    """
    fields = (tenant_id, model.encode(), prompt_version.encode(), policy.encode(), chain)
    return PREFIX + "s:" + fields_digest(*fields).hex()


def lock_name(key: str) -> str:
    """The lock of whoever makes the value of `key`."""
    return PREFIX + "l:" + key.removeprefix(PREFIX)


def pause_name(key: str) -> str:
    """The record that making the value of `key` failed."""
    return PREFIX + "p:" + key.removeprefix(PREFIX)
