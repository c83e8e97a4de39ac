"""What can go wrong between this proxy and an upstream, as one table: aiohttp's exception, our error, the sentence for
people, and whether the request may be sent again.

The table is read from the top, so narrow cases stand above broad ones. A sentence names the upstream by its configured
name and its address, gives the system's reason where there is one, and ends with what to do. Neither keys nor anything
the upstream sent is quoted.
"""

from __future__ import annotations

import os
from enum import Enum
from typing import NamedTuple

import aiohttp

from trimtab.errors import UpstreamError, UpstreamTimeout, UpstreamUnreachable
from trimtab.upstream.settings import UpstreamSettings


class Retry(Enum):
    """Whether the same request may be sent again."""

    SAFE = "nothing was sent"
    IF_REPEATABLE = "it may have been received: only a request that changes nothing upstream"
    NEVER = "it would fail the same way, or the client has part of the answer"


class Failure(NamedTuple):
    """An attempt without an answer."""

    error: UpstreamError
    retry: Retry


class _Row(NamedTuple):
    raised: type[BaseException]
    error: type[UpstreamError]
    retry: Retry
    sentence: str


# Everything aiohttp raises from a call; OSError for the bare ones (resets while writing, timeouts).
AIOHTTP_ERRORS = (aiohttp.ClientError, OSError)

_TABLE = (
    _Row(
        aiohttp.ClientProxyConnectionError,
        UpstreamUnreachable,
        Retry.SAFE,
        "cannot be called, because its proxy cannot be reached{cause}. Check `proxy`, and that the proxy is running.",
    ),
    _Row(
        aiohttp.ClientHttpProxyError,
        UpstreamUnreachable,
        Retry.SAFE,
        "cannot be called, because its proxy refuses to connect{cause}. Check `proxy`, and what the proxy allows.",
    ),
    _Row(
        aiohttp.ConnectionTimeoutError,
        UpstreamTimeout,
        Retry.SAFE,
        "accepted no connection within {connect:g} s. Check base_url, and that the server is running.",
    ),
    _Row(
        TimeoutError,
        UpstreamTimeout,
        Retry.NEVER,
        "sent nothing for {read:g} s. Try again, or raise read_timeout_s.",
    ),
    _Row(
        aiohttp.ClientConnectorDNSError,
        UpstreamUnreachable,
        Retry.SAFE,
        "has a host name that cannot be resolved. Check base_url, and DNS.",
    ),
    _Row(
        aiohttp.ClientConnectorCertificateError,
        UpstreamUnreachable,
        Retry.NEVER,
        "has a TLS certificate that cannot be verified. Set ca_file to the certificate of its authority.",
    ),
    _Row(
        aiohttp.ClientSSLError,
        UpstreamUnreachable,
        Retry.SAFE,
        "failed the TLS handshake. Check whether base_url should begin with http:// instead of https://.",
    ),
    _Row(
        aiohttp.ClientConnectorError,
        UpstreamUnreachable,
        Retry.SAFE,
        "cannot be reached{cause}. Check base_url, and that the server is running.",
    ),
    _Row(
        aiohttp.ClientResponseError,
        UpstreamUnreachable,
        Retry.NEVER,
        "did not answer with HTTP/1.1. Check base_url.",
    ),
    _Row(
        aiohttp.ClientPayloadError,
        UpstreamUnreachable,
        Retry.NEVER,
        "broke off in the middle of its answer. Try again.",
    ),
    _Row(
        aiohttp.ClientConnectionError,
        UpstreamUnreachable,
        Retry.IF_REPEATABLE,
        "closed the connection without an answer. Try again.",
    ),
    _Row(OSError, UpstreamUnreachable, Retry.IF_REPEATABLE, "closed the connection. Try again."),
    _Row(
        aiohttp.ClientError,
        UpstreamUnreachable,
        Retry.NEVER,
        "cannot be called. Check base_url.",
    ),
)


def failure(raised: BaseException, upstream: UpstreamSettings) -> Failure:
    """The failure for one of `AIOHTTP_ERRORS`, raised before the first byte of an answer."""
    row = next(row for row in _TABLE if isinstance(raised, row.raised))
    sentence = row.sentence.format(
        connect=upstream.connect_timeout_s, read=upstream.read_timeout_s, cause=_cause(raised)
    )
    error = row.error(f"The upstream {upstream.name!r} ({upstream.base_url}) {sentence}")
    error.reached = row.retry is not Retry.SAFE
    return Failure(error, row.retry)


def interruption(raised: BaseException, upstream: UpstreamSettings) -> UpstreamError:
    """The error for one of `AIOHTTP_ERRORS`, raised after the answer began: a silence, or an answer that broke off."""
    return failure(raised if isinstance(raised, TimeoutError) else aiohttp.ClientPayloadError(), upstream).error


def _cause(raised: BaseException) -> str:
    """The reason as a clause, ": connection refused", or "" without one."""
    if status := getattr(raised, "status", None):
        return f": it answers {status}"
    number = getattr(raised, "errno", None)
    return f": {os.strerror(number).lower()}" if number else ""
