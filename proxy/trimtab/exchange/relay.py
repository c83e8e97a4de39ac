"""The answer's way back. Bytes are relayed as they come; what is read of them is read beside the path, and returned as
one value, `Relayed`.

An overflow in a stream that has begun cannot be relayed as it is: it is withheld, so that a smaller request can still
be tried where the client has nothing yet, or the stream ends in our one clear error.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from trimtab.conversations.elsewhere import Elsewhere
from trimtab.conversations.turns import Turn
from trimtab.errors import Conflict, StoreUnavailable, UpstreamError
from trimtab.exchange.beginning import unpacking
from trimtab.exchange.include_usage import is_for_us
from trimtab.exchange.incoming import Downstream, with_request_id
from trimtab.exchange.notes import Notes, Relayed
from trimtab.exchange.observed import Observed, is_uneventful
from trimtab.exchange.offload import ANSWERS, LIGHT_PIECE, beside, read_beside, read_in_turns
from trimtab.exchange.pulse import Pulse
from trimtab.exchange.report import Report, event_with_fields
from trimtab.exchange.verdict import WHOLE_LIMIT, Verdict, is_heavy, overflow_in
from trimtab.overflow.classify import Overflow, classify_event
from trimtab.upstream.headers import to_client
from trimtab.wire import sse
from trimtab.wire.body import with_fields
from trimtab.wire.media import begins_like_events


class RelayOptions(msgspec.Struct, frozen=True):
    """What the proxy adds to an answer or takes out of it; nothing by default.

    `report`: stands in the headers, and in a shaped stream in a comment. `adds`: fields that the client asked for,
    in the answer's body. `include_usage`: the stream reports its usage for us alone, so that event is taken out.
    `withhold_overflow`: an overflow within a stream is taken out and returned. `keepalive_s`: seconds of silence after
    which the client of a stream gets a comment, 0 for none. `unmanaged`: the reason why the request was not shaped.
    `turn`: of a stored conversation; it is stored before the last byte goes out, and where the answer breaks off."""

    report: Report | None = None
    adds: Mapping[str, Any] = {}
    include_usage: bool = False
    withhold_overflow: bool = False
    keepalive_s: float = 0.0
    unmanaged: str = ""
    turn: Turn | Elsewhere | None = None


async def relay(verdict: Verdict, downstream: Downstream, notes: Notes, options: RelayOptions) -> Relayed:
    """Relay an answer to its end, note how far it got (also where the client left in the middle), and let go of the
    upstream's connection. Raises UpstreamError when the upstream breaks off before the client got anything, and
    StoreUnavailable or Conflict where a turn cannot be stored."""
    relaying = _Relay(verdict, downstream, notes, options)
    try:
        await relaying.way()
    except UpstreamError:
        relaying.broken_off = True
        raise
    finally:
        relayed = relaying.relayed()
        notes.relayed(relayed)
        await verdict.answer.aclose()
        if options.turn is not None:
            await relaying.keep_beginning()
    return relayed


class _Relay:
    """One answer on its way to one client."""

    def __init__(self, verdict: Verdict, downstream: Downstream, notes: Notes, options: RelayOptions) -> None:
        self._verdict, self._down, self._request_id, self._options = verdict, downstream, notes.request_id, options
        self._dialect = notes.speaks
        self._notes, self._observed = notes, Observed(verdict, notes.speaks, options.turn)
        self._begun = self.broken_off = False
        self._withheld: Overflow | None = None
        self._adds = options.adds
        self._last: bytes = b"{}"  # data of the last event: what an inserted chunk copies its id and model from

    def way(self) -> Awaitable[None]:
        """The way to the end that this answer takes. Raises as `relay`."""
        if self._verdict.body is not None:
            return self._whole(self._verdict.body)
        if self._verdict.stream:
            return self._stream()
        return self._after_blanks() if self._verdict.blank else self._unread()

    def relayed(self) -> Relayed:
        """How far it got by now."""
        return Relayed(
            self._verdict.answer.status,
            self._verdict.stream,
            self._observed.failure,
            self._observed.error_code,
            self._observed.usage,
            self._observed.overflow,
            self._withheld,
            self._begun,
            self.broken_off,
        )

    # -- an answer in one piece ----------------------------------------------------------------------------------

    async def _whole(self, raw: bytes) -> None:
        verdict, body, good = self._verdict, raw, self._verdict.answer.status < 400
        if self._observed.turn is not None:
            await read_beside(is_heavy(raw, verdict.encoding), self._observed.whole_turn, raw)
            await self._observed.turn.keep()
        if good and self._adds and not verdict.encoding:
            body = with_fields(raw, self._adds)
        await self._start(content_length=len(body))
        self._notes.only_blank = False
        await self._down.end(body)
        read = self._observed.whole if good else self._observed.error
        if is_heavy(raw, verdict.encoding):
            return await beside(ANSWERS, read, raw)
        read(raw)

    async def keep_beginning(self) -> None:
        """Store as much of a turn as the client got of its answer, where it is not stored yet. Never raises."""
        if self._observed.turn is not None and self._withheld is None:
            await self._observed.turn.keep_what_came()

    async def _keep_at_its_end(self, *, ended: bool = False) -> None:
        """Store the turn before the event goes out after which nothing is added to it. Raises as `Turn.keep`."""
        if self._observed.turn is not None and (ended or self._observed.turn_ends):
            await self._observed.turn.keep()

    async def _after_blanks(self) -> None:
        """Blank bytes as they come, which keep the client waiting; then the answer in one piece. It may still be an
        overflow, of which the client has nothing yet; one that is too large is relayed unread."""
        await self._start()
        self._notes.only_blank = True
        held: list[bytes] = []
        size = 0
        async for chunk in self._verdict.answer.chunks():
            if self._notes.only_blank and (held or chunk.strip()):
                held.append(chunk)
                size += len(chunk)
                self._notes.only_blank = size <= WHOLE_LIMIT and not begins_like_events(held[0].lstrip())
                chunk = b"" if self._notes.only_blank else b"".join(held)
            if chunk:
                await self._down.write(chunk)
        if not self._notes.only_blank:
            return await self._down.end()
        raw, status = b"".join(held), self._verdict.answer.status
        overflow = await read_beside(is_heavy(raw, ""), overflow_in, status, raw, "", self._verdict.sent)
        if overflow is not None and self._options.withhold_overflow:
            self._withheld = overflow
        else:
            await self._whole(raw)

    # -- an answer that comes in pieces --------------------------------------------------------------------------

    async def _unread(self) -> None:
        """Chunk by chunk. Of an error the beginning is kept, for its code."""
        await self._start()
        async for chunk in self._verdict.answer.chunks():
            self._observed.piece(chunk)
            await self._down.write(chunk)
        await self._down.end()
        self._observed.pieces_ended()

    async def _stream(self) -> None:
        begun = self._down.started
        await self._start()
        options, encoded = self._options, bool(self._verdict.encoding)  # nothing can be added to a compressed stream
        # Where a client asked for no stream, what is labelled as one may be JSON: nothing of ours goes in unseen.
        plain = not encoded and (self._notes.stream or self._verdict.events)
        pulse = Pulse(self._down, options.keepalive_s if plain else 0, commented=begun)
        edited = (self._adds or options.include_usage) and plain
        try:
            report = options.report if plain else None
            if report is not None and (report.edits or report.conversation or "trimtab" in options.adds):
                await pulse.comment(report.comment())
            await (self._edited(pulse) if edited else self._untouched(pulse))
            await self._keep_at_its_end(ended=self._withheld is None)
        except (UpstreamError, StoreUnavailable, Conflict) as error:
            self._observed.broke_off(error.code or "")
            self.broken_off = isinstance(error, UpstreamError)
            await pulse.stop()
            await self.keep_beginning()
            if not encoded:
                await self._down.end((b"" if pulse.between else b"\n\n") + self._dialect.event(error))
            return
        finally:
            await pulse.stop()
            self._begun = not pulse.fresh
        if self._withheld is None:
            await self._down.end()

    async def _untouched(self, pulse: Pulse) -> None:
        """Every byte as it came; the tap reads beside."""
        if self._verdict.encoding:
            return await self._compressed(pulse)
        write, tap, idle, observed = pulse.write, sse.Tap(), True, self._observed
        async for chunk in self._verdict.answer.chunks():
            if not idle or observed.turn is not None or not is_uneventful(chunk):
                await read_in_turns(len(chunk) > LIGHT_PIECE, observed.chunk(tap, chunk))
                if observed.chunk_overflows and self._options.withhold_overflow and idle:
                    chunk = b"".join(self._until_overflow(sse.Editor().feed(chunk)))
                idle = tap.idle
                await self._keep_at_its_end()
            if chunk:
                await write(chunk)
            if self._withheld is not None:
                return
        for data in tap.flush():
            self._observed.event(data)

    async def _compressed(self, pulse: Pulse) -> None:
        """Every byte as it came: nothing is taken out of a compressed stream. Only what is stored is read before."""
        tap, unpacked, first = sse.Tap(), unpacking(self._verdict.encoding), self._observed.turn is not None
        async for chunk in self._verdict.answer.chunks():
            if not first:
                await pulse.write(chunk)
            await read_in_turns(True, self._observed.chunk(tap, chunk, unpacked))
            await self._keep_at_its_end()
            if first:
                await pulse.write(chunk)
        for data in tap.flush():
            self._observed.event(data)

    def _until_overflow(self, frames: Iterable[sse.Frame]) -> Iterator[bytes]:
        """The frames before the one that reports an overflow. One of which a part has been relayed already is not
        searched for: it goes on as the upstream wrote it."""
        for frame in frames:
            if frame.data is not None and (found := classify_event(frame.data, self._verdict.sent)):
                self._withheld = found
                return
            yield frame.raw

    async def _edited(self, pulse: Pulse) -> None:
        """Event by event: what the client asked of us goes in before the end, the usage that is for us alone is taken
        out. All other events keep their bytes."""
        editor = sse.Editor()
        async for chunk in self._verdict.answer.chunks():
            if out := await read_beside(len(chunk) > LIGHT_PIECE, self._edit, editor, chunk):
                await self._keep_at_its_end()
                await pulse.write(out)
            if self._withheld is not None:
                return
        rest = b"".join(self._kept(frame) for frame in editor.flush())
        if self._withheld is None:
            rest += self._added_event()
        if rest:
            await pulse.write(rest)

    def _edit(self, editor: sse.Editor, chunk: bytes) -> bytes:
        return b"".join([self._kept(frame) for frame in editor.feed(chunk)])

    def _kept(self, frame: sse.Frame) -> bytes:
        """What goes to the client in the place of one event."""
        if frame.data is None:
            return frame.raw if self._withheld is None else b""
        if frame.data != sse.DONE and self._adds:
            self._last = frame.data
        found = self._observed.event(frame.data)
        if self._options.withhold_overflow:
            self._withheld = self._withheld or found
        if self._withheld is not None:
            return b""
        if frame.data == sse.DONE:
            return self._added_event() + frame.raw
        if self._adds and (added := self._dialect.added(frame.data, self._adds)) is not None:
            self._adds = {}
            return frame.raw.replace(frame.data, added, 1)
        return b"" if self._options.include_usage and is_for_us(frame.data) else frame.raw

    def _added_event(self) -> bytes:
        """An event with the fields that the client asked for, once; none in a dialect of typed events, whose clients do
        not expect it."""
        fields, self._adds = self._adds, {}
        return event_with_fields(self._last, fields) if fields and self._dialect.appends_chunk else b""

    # -- both ----------------------------------------------------------------------------------------------------

    async def _start(self, content_length: int | None = None) -> None:
        answer, report = self._verdict.answer, self._options.report
        changed = content_length is not None and bool(self._adds) and not self._verdict.encoding
        length_known = content_length is None and not self._verdict.stream
        headers = to_client(answer.headers, body_changed=changed, length_known=length_known)
        if content_length is not None:
            headers.append((b"content-length", b"%d" % content_length))
        headers = with_request_id(headers, self._request_id)
        headers += report.headers() if report is not None else []
        if self._options.unmanaged:
            headers.append((b"x-trimtab-unmanaged", self._options.unmanaged.encode()))
        stores = self._observed.turn is not None and not self._verdict.stream and not self._verdict.blank
        if stores and self._observed.unstored:
            headers.append((b"x-trimtab-stored", b"false"))
        if not self._down.started:  # it is for the second try of a stream whose first only kept the client waiting
            await self._down.start(answer.status, headers)
