"""What can go wrong between us and an upstream, as one table: aiohttp's exception, our error, the sentence
for people, and whether trying once more makes sense.

The table is read from the top, so the narrow cases stand above the broad ones. Sentences name the upstream by
its configured name; neither keys nor anything the upstream sent is quoted.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import aiohttp

from trimtab.errors import UpstreamError, UpstreamTimeout, UpstreamUnreachable
from trimtab.upstream.settings import UpstreamSettings


class Again(Enum):
    """May the same request be sent once more?"""

    SAFE = "nothing was sent"
    REPLAY = "it may have been received: only a request that changes nothing upstream"
    NEVER = "it would fail the same way, or the client has part of the answer"


class Failure(NamedTuple):
    """An attempt that gave no answer."""

    error: UpstreamError
    again: Again


class _Row(NamedTuple):
    raised: type[BaseException]
    error: type[UpstreamError]
    again: Again
    sentence: str


# Everything aiohttp lets out of a call; OSError has the bare ones (resets while writing, timeouts).
RAISED = (aiohttp.ClientError, OSError)

_TABLE = (
    _Row(
        aiohttp.ConnectionTimeoutError,
        UpstreamTimeout,
        Again.SAFE,
        "accepted no connection within {connect:g} s: is base_url right, and is it up?",
    ),
    _Row(
        TimeoutError,
        UpstreamTimeout,
        Again.NEVER,
        "sent nothing for {read:g} s: try again, or raise read_timeout_s.",
    ),
    _Row(
        aiohttp.ClientConnectorDNSError,
        UpstreamUnreachable,
        Again.SAFE,
        "has a host name that cannot be resolved: check base_url.",
    ),
    _Row(
        aiohttp.ClientConnectorCertificateError,
        UpstreamUnreachable,
        Again.NEVER,
        "has a certificate that cannot be verified: set ca_file to its authority.",
    ),
    _Row(
        aiohttp.ClientSSLError,
        UpstreamUnreachable,
        Again.SAFE,
        "failed the TLS handshake: check that base_url says https where the server does.",
    ),
    _Row(
        aiohttp.ClientConnectorError,
        UpstreamUnreachable,
        Again.SAFE,
        "cannot be connected to: check base_url, and that it is up.",
    ),
    _Row(
        aiohttp.ClientResponseError,
        UpstreamUnreachable,
        Again.NEVER,
        "answered something that is not HTTP/1.1: check base_url.",
    ),
    _Row(
        aiohttp.ClientPayloadError,
        UpstreamUnreachable,
        Again.NEVER,
        "broke off in the middle of its answer: try again.",
    ),
    _Row(
        aiohttp.ClientConnectionError,
        UpstreamUnreachable,
        Again.REPLAY,
        "closed the connection without an answer: try again.",
    ),
    _Row(OSError, UpstreamUnreachable, Again.REPLAY, "closed the connection: try again."),
    _Row(
        aiohttp.ClientError,
        UpstreamUnreachable,
        Again.NEVER,
        "cannot be called: check base_url.",
    ),
)


def failure(raised: BaseException, upstream: UpstreamSettings) -> Failure:
    """The failure that one of `RAISED` means, before the first byte of an answer."""
    row = next(row for row in _TABLE if isinstance(raised, row.raised))
    sentence = row.sentence.format(connect=upstream.connect_timeout_s, read=upstream.read_timeout_s)
    return Failure(row.error(f"The upstream {upstream.name!r} {sentence}"), row.again)


def broken_off(raised: BaseException, upstream: UpstreamSettings) -> UpstreamError:
    """The error for one of `RAISED` after the answer began: a silence, or an answer that broke off."""
    told = raised if isinstance(raised, TimeoutError) else aiohttp.ClientPayloadError()
    return failure(told, upstream).error
