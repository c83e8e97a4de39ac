"""The keys of everything in the store. No other module spells one.

    trimtab:v1:s:DIGEST     a summary, sealed
    trimtab:v1:l:s:DIGEST   the lock of the replica that is making it
    trimtab:v1:p:s:DIGEST   how long it is left alone after a failure
    trimtab:v1:f:DIGEST     the factor of an upstream's model
    trimtab:v1:m:DIGEST     the limit learned for it
    trimtab:v1:c:DIGEST     the log of a conversation, each entry sealed
    trimtab:v1:l:c:DIGEST   the lock of the request that is adding to it
    trimtab:v1:r:DIGEST     where a response stands: in such a log, or at an upstream; sealed
    trimtab:v1:d:DIGEST     an image or file of a conversation, sealed
    trimtab:v1:u:DIGEST     an uploaded file, a piece of it, or the list of a tenant's, sealed

A digest covers everything that decides what the value means. `v1` is the version of all formats: a new version reads
no old key, and old values expire.
"""

from __future__ import annotations

import hashlib

VERSION = "v1"
PREFIX = f"trimtab:{VERSION}:"


def fields_digest(*fields: bytes) -> bytes:
    """SHA-256 (32 bytes) over the fields, each with its length as 8 bytes before it: no two different lists of fields
    give the same bytes.
    """
    digest = hashlib.sha256()
    for field in fields:
        digest.update(len(field).to_bytes(8, "big"))
        digest.update(field)
    return digest.digest()


def summary_key(tenant_id: bytes, model: str, prompt_version: str, policy: str, chain: bytes) -> str:
    """The key of one summary.

    `chain` is the digest over all messages that are summarized; `model` the one that writes; `prompt_version` covers
    the hint, the prompt's text and how messages are rendered; `policy` the settings that shape the text.
    """
    fields = (tenant_id, model.encode(), prompt_version.encode(), policy.encode(), chain)
    return PREFIX + "s:" + fields_digest(*fields).hex()


def lock_key(key: str) -> str:
    """The key of the lock that the maker of `key` holds."""
    return PREFIX + "l:" + key.removeprefix(PREFIX)


def pause_key(key: str) -> str:
    """The key of the record that making `key` failed."""
    return PREFIX + "p:" + key.removeprefix(PREFIX)


def factor_key(upstream: str, model: str) -> str:
    """The key of the factor of one model at one upstream."""
    return PREFIX + "f:" + _pair_digest(upstream, model)


def lesson_key(upstream: str, model: str) -> str:
    """The key of the limit learned for one model at one upstream."""
    return PREFIX + "m:" + _pair_digest(upstream, model)


def log_key(tenant_id: bytes, name: str) -> str:
    """The key of one log of a tenant."""
    return PREFIX + "c:" + fields_digest(tenant_id, name.encode("utf-8", "replace")).hex()


def response_key(tenant_id: bytes, response_id: str) -> str:
    """The key of one response of a tenant, by the id its upstream gave it."""
    return PREFIX + "r:" + fields_digest(tenant_id, response_id.encode("utf-8", "replace")).hex()


def media_key(tenant_id: bytes, name: str, digest: bytes) -> str:
    """The key of an image or file in the log `name` of a tenant, by the digest of its bytes."""
    return PREFIX + "d:" + fields_digest(tenant_id, name.encode("utf-8", "replace"), digest).hex()


def file_key(tenant_id: bytes, file_id: str, piece: int | None = None) -> str:
    """The key of what is known of an uploaded file, or of one piece of its content."""
    fields = (tenant_id, file_id.encode("utf-8", "replace"), b"" if piece is None else b"%d" % piece)
    return PREFIX + "u:" + fields_digest(*fields).hex()


def _pair_digest(upstream: str, model: str) -> str:
    """A digest, because clients choose model names, of any length and with lone surrogates."""
    return fields_digest(upstream.encode("utf-8", "replace"), model.encode("utf-8", "replace")).hex()
