"""What is read of an answer while it is relayed: its usage, an error, an overflow. Reading stands beside the path: it
changes nothing, and it never raises.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from trimtab.conversations.elsewhere import Elsewhere
from trimtab.conversations.turns import Turn
from trimtab.dialects.dialect import Dialect
from trimtab.exchange.beginning import parts
from trimtab.exchange.notes import Failure
from trimtab.exchange.verdict import Verdict, readable
from trimtab.overflow.classify import Overflow, classify_event
from trimtab.overflow.unwrap import unwrap, unwrap_event
from trimtab.telemetry import Usage
from trimtab.wire import problem, sse
from trimtab.wire.encoding import Decoder, decode_or_empty
from trimtab.wire.usage import Usage as Reported

_ERROR_HEAD = 64 << 10  # bytes of an error in which its code is looked for
_STEP = 100  # events that are read in one go
_MOST_ERRORS = 32  # events of a stream that are looked at for an error: each may take milliseconds
# Words of an event that may be one. The last is of an error without a name, of which only its event is called so.
_ERRORS = (b'rror"', b'"err', b"response.failed", b"xception", b'"base_resp"', b'"message":')
_ERROR_SET = re.compile(rb'"error"\s*:\s*[{"\[]')  # Responses has it in every answer, with null


class Observed:
    """What one answer has shown so far. `turn`: of a stored conversation, which the answer is a part of; `turn_ends`:
    all that is stored of it has come."""

    def __init__(self, verdict: Verdict, dialect: Dialect, turn: Turn | Elsewhere | None = None) -> None:
        self._verdict, self._dialect = verdict, dialect
        status = verdict.answer.status
        self.turn, self.turn_ends = turn if status < 400 else None, False
        if self.turn is not None:
            self.turn.begin()
        self.failure: Failure | None = None
        if status >= 400:
            self.failure = "upstream_error" if status >= 500 else "upstream_rejected"
        self.error_code = ""
        self.usage: Usage | None = None
        self.overflow = self.chunk_overflows = False
        self._reported: Reported | None = None
        self._errors = 0  # events that looked like one
        self._head = b""

    @property
    def unstored(self) -> bool:
        """True where the turn was to be stored, and is not, or not yet."""
        return isinstance(self.turn, Turn) and self.turn.writes and not self.turn.stored

    def whole(self, raw: bytes) -> None:
        """Read an answer that came in one piece, and is no error by its status."""
        body = readable(raw, self._verdict.encoding)
        self._read_usage(body)
        if (self.usage is None or _ERROR_SET.search(body)) and any(unwrap(self._verdict.answer.status, body)):
            self.failure, self.error_code = "upstream_error", problem.code_of(body)

    def whole_turn(self, raw: bytes) -> None:
        """Read what an answer in one piece adds to a stored conversation."""
        if self.turn is not None:
            self.turn.read(readable(raw, self._verdict.encoding))

    def error(self, raw: bytes) -> None:
        """Read the code of an error, from its beginning."""
        self.error_code = problem.code_of(decode_or_empty(raw, self._verdict.encoding, _ERROR_HEAD))

    def piece(self, chunk: bytes) -> None:
        """Keep the beginning of an error that comes in pieces."""
        if self.failure is not None and len(self._head) < _ERROR_HEAD:
            self._head += chunk

    def pieces_ended(self) -> None:
        """Read the code of an error that came in pieces."""
        if self.failure is not None:
            self.error(self._head)

    def chunk(self, tap: sse.Tap, chunk: bytes, unpacked: Decoder | None = None) -> Iterator[None]:
        """Read the events that a chunk completes, step by step. `chunk_overflows` is True then when one of them reports
        an overflow."""
        self.chunk_overflows = False
        for part in parts(chunk, unpacked):
            for at, data in enumerate(tap.feed(part), 1):
                if self.event(data) is not None:
                    self.chunk_overflows = True
                if at % _STEP == 0:
                    yield
            yield

    def event(self, data: bytes) -> Overflow | None:
        """Read one event; returns the overflow that it reports."""
        if self.turn is not None:
            self.turn_ends = self.turn.feed(data) or self.turn_ends
        self._read_usage(data)
        if self._errors >= _MOST_ERRORS or not any(word in data for word in _ERRORS):
            return None
        self._errors += 1
        found = classify_event(data, self._verdict.sent)
        self.overflow = self.overflow or found is not None
        if unwrap_event(data) is not None:
            self.failure, self.error_code = "upstream_error", problem.code_of(data)
        return found

    def broke_off(self, code: str) -> None:
        """The upstream broke off; the client got an error with this `code`."""
        self.failure, self.error_code = "upstream_error", code

    def _read_usage(self, body: bytes) -> None:
        usage = self._dialect.usage(body, self._reported)
        if usage is not None and usage.prompt_tokens is not None:
            self._reported = usage
            self.usage = Usage(usage.prompt_tokens, usage.completion_tokens or 0, usage.cached_tokens)


def is_uneventful(chunk: bytes) -> bool:
    """Whether a chunk is whole events that `Observed.event` would learn nothing from: most are. Every chunk passes
    here, so the words of `_ERRORS` are written out. A client that asks for the usage gets it with the last chunk, and
    null with every other."""
    return (
        chunk[-2:] == b"\n\n"
        and (b'usage"' not in chunk or chunk.count(b'usage"') == chunk.count(b'"usage":null'))
        and b'rror"' not in chunk
        and b'"err' not in chunk
        and b"response.failed" not in chunk
        and b"xception" not in chunk
        and b'"base_resp"' not in chunk
        and b'"message":' not in chunk
    )
