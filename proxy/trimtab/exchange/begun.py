"""A stream that begins before the upstream has answered, because its client waits for a summary.

Middleboxes cut a connection that is silent, so after `keepalive_s` seconds the client gets the head of a stream and a
comment. From then on its status is 200: whatever goes wrong is an event of the stream.
"""

from __future__ import annotations

from trimtab.errors import UpstreamError
from trimtab.exchange.incoming import Downstream, with_request_id
from trimtab.exchange.pulse import Pulse
from trimtab.exchange.verdict import ERROR_LIMIT, Verdict
from trimtab.wire import problem
from trimtab.wire.encoding import decode_or_empty
from trimtab.wire.media import EVENT_STREAM

_HEAD = ((b"content-type", EVENT_STREAM.encode()), (b"cache-control", b"no-cache"))


def waiting(downstream: Downstream, every_s: float, request_id: str) -> Pulse:
    """Comments for a client that waits, every `every_s` seconds, 0 for none; the first one begins the stream, where it
    has not begun. Needs a running event loop."""
    return Pulse(downstream, every_s, with_request_id(_HEAD, request_id))


def not_the_stream(verdict: Verdict) -> UpstreamError:
    """The error for an answer that cannot go on in a stream which has begun: the upstream's own, where it is one."""
    status, encoding = verdict.answer.status, verdict.encoding
    if status >= 400:
        return problem.rejected_late(status, decode_or_empty(verdict.body or b"", encoding, ERROR_LIMIT))
    form = f"content-encoding {encoding}" if encoding else "a stream" if verdict.stream else "an answer in one piece"
    return UpstreamError(f"The upstream answered with {form}, where the client's answer of another form had begun.")
