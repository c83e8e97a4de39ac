"""The answer's way back. Bytes are relayed as they come; what is read of them is read beside the path.

An overflow in a stream that the client has part of already cannot be mended any more: it is taken out, and the stream
ends in our one clear error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

import msgspec

from trimtab.errors import UpstreamError
from trimtab.exchange import report
from trimtab.exchange.incoming import Downstream
from trimtab.exchange.notes import Notes
from trimtab.exchange.policies import is_ours
from trimtab.exchange.pulse import KEEP_ALIVE, Pulse
from trimtab.exchange.shape import Shaping
from trimtab.exchange.verdict import STREAM_LIMIT, WHOLE_LIMIT, Verdict, decoded
from trimtab.overflow.classify import Overflow, classify_event
from trimtab.overflow.unwrap import unwrap_event
from trimtab.telemetry import Usage
from trimtab.upstream.headers import to_client
from trimtab.wire import problem, sse
from trimtab.wire.encoding import decode_or_empty, decoder
from trimtab.wire.usage import usage_of


class RelaySettings(msgspec.Struct, frozen=True):
    """`keepalive_s`: seconds of silence after which a waiting client gets a comment, 0 for none. `explains`: whether
    an overflow in the middle of a stream is taken out, to be told in our own words."""

    keepalive_s: float = 0.0
    explains: bool = False


_PLAIN = RelaySettings()


class Relay:
    """One answer on its way to one client."""

    def __init__(
        self,
        verdict: Verdict,
        downstream: Downstream,
        notes: Notes,
        shaping: Shaping | None,
        settings: RelaySettings = _PLAIN,
    ) -> None:
        self._verdict, self._down, self._notes, self._shaping = verdict, downstream, notes, shaping
        self._settings = settings
        self._late: Overflow | None = None
        request = shaping.request if shaping else None
        observed = notes.outcome == "observed"  # then nothing was applied
        self._tells_edits = request is not None and not observed and is_ours(request.context_management)
        self._last: bytes = b"{}"  # data of the last event: what an inserted chunk copies its id and model from

    async def run(self) -> Overflow | None:
        """Relay to the end. Gives the overflow that ended a stream in the client's hands: it has not been told yet,
        and its answer is not ended. Raises UpstreamError when the upstream dies before the client got anything."""
        status = self._verdict.answer.status
        if self._down.started and not self._verdict.stream:
            raise UpstreamError(f"The upstream answered the shortened request with {status} instead of a stream.")
        self._notes.status = status
        if status >= 400:
            self._notes.outcome = "upstream_error" if status >= 500 else "upstream_rejected"
        if self._verdict.body is not None:
            await self._whole(self._verdict.body)
        elif self._verdict.stream:
            await self._stream()
        else:
            await self._unread()
        return self._late

    # -- an answer in one piece ----------------------------------------------------------------------------------

    async def _whole(self, raw: bytes) -> None:
        verdict, told = self._verdict, raw
        good = verdict.answer.status < 400
        if good and self._tells_edits and not verdict.encoding:
            told = self._with_applied_edits(raw)
        await self._start(content_length=len(told))
        await self._down.end(told)
        if good:
            self._read_usage(decode_or_empty(raw, verdict.encoding, WHOLE_LIMIT))

    def _read_usage(self, body: bytes) -> None:
        usage = usage_of(body)
        if usage is not None and usage.prompt_tokens is not None:
            self._notes.usage = Usage(usage.prompt_tokens, usage.completion_tokens or 0, usage.cached_tokens)

    def _with_applied_edits(self, raw: bytes) -> bytes:
        """The answer with `context_management` put before its closing brace; nothing else is touched."""
        body = raw.rstrip()
        if not body.endswith(b"}") or self._shaping is None:
            return raw
        told = report.applied_edits(self._shaping, self._notes.edits, self._notes.gathered)
        comma = b"" if body[:-1].rstrip().endswith(b"{") else b","
        return body[:-1] + comma + b'"context_management":' + told + b"}"

    # -- an answer that comes in pieces --------------------------------------------------------------------------

    async def _unread(self) -> None:
        await self._start()
        try:
            async for chunk in self._verdict.answer.chunks():
                await self._down.write(chunk)
        except UpstreamError as error:
            self._broken(error)
            raise
        await self._down.end()

    async def _stream(self) -> None:
        self._notes.stream = True  # also where the client's words for it were not understood here
        await self._start()
        encoded = bool(self._verdict.encoding)  # what is compressed we cannot speak into
        pulse = Pulse(self._down, 0 if encoded else self._settings.keepalive_s)
        edits = (self._tells_edits or self._notes.asked_usage) and not encoded
        try:
            if self._shaping is not None and self._notes.edits and not encoded:
                await pulse.say(report.comment(self._shaping, self._notes.edits, self._notes.gathered))
            elif self._verdict.silent and not encoded and self._settings.keepalive_s:
                await pulse.say(KEEP_ALIVE)
            await (self._edited(pulse) if edits else self._untouched(pulse))
        except UpstreamError as error:
            self._broken(error)
            await pulse.stop()
            if not encoded:
                await self._down.end((b"" if pulse.between else b"\n\n") + problem.sse_event(error))
            return
        finally:
            await pulse.stop()
            self._notes.relayed = not pulse.fresh
        if self._late is None:
            await self._down.end()

    async def _untouched(self, pulse: Pulse) -> None:
        """Every byte as it came; the tap reads beside."""
        write, tap = pulse.write, sse.Tap()
        unpacked = decoder(self._verdict.encoding, STREAM_LIMIT) if self._verdict.encoding else None
        async for chunk in self._verdict.answer.chunks():
            if unpacked is not None or not tap.idle or not _uneventful(chunk):
                began = tap.idle
                found = [self._observe(data) for data in tap.feed(decoded(unpacked, chunk))]
                if any(found) and self._settings.explains and began and unpacked is None:
                    chunk = b"".join(self._until_overflow(sse.Editor().feed(chunk)))
            if chunk:
                await write(chunk)
            if self._late is not None:
                return
        for data in tap.flush():
            self._observe(data)

    def _until_overflow(self, frames: Iterable[sse.Frame]) -> Iterator[bytes]:
        """The frames before the one that says that the prompt is too long. One that has partly been relayed already
        is not looked for: it goes on as the upstream wrote it."""
        for frame in frames:
            if frame.data is not None and (found := classify_event(frame.data)):
                self._late = found
                return
            yield frame.raw

    async def _edited(self, pulse: Pulse) -> None:
        """Event by event: what the client asked of us goes in before the end, the usage that only we asked for
        is taken out again. All other events keep their bytes."""
        editor = sse.Editor()
        async for chunk in self._verdict.answer.chunks():
            if out := b"".join(self._kept(frame) for frame in editor.feed(chunk)):
                await pulse.write(out)
            if self._late is not None:
                return
        rest = b"".join(self._kept(frame) for frame in editor.flush())
        if self._late is None:
            rest += self._applied_edits_event()
        if rest:
            await pulse.write(rest)

    def _kept(self, frame: sse.Frame) -> bytes:
        """What goes to the client in the place of one event."""
        if frame.data is None:
            return frame.raw if self._late is None else b""
        found = self._observe(frame.data)
        if self._settings.explains:
            self._late = self._late or found
        if self._late is not None:
            return b""
        if frame.data == sse.DONE:
            return self._applied_edits_event() + frame.raw
        return b"" if self._notes.asked_usage and _only_usage(frame.data) else frame.raw

    def _applied_edits_event(self) -> bytes:
        """A chunk like the upstream's last, without choices, with the edits; once, if they were asked for."""
        if self._shaping is None or not self._tells_edits:
            return b""
        self._tells_edits = False
        told = report.applied_edits(self._shaping, self._notes.edits, self._notes.gathered)
        like: dict[str, msgspec.Raw] = {}
        with suppress(msgspec.DecodeError):
            like = msgspec.json.decode(self._last, type=dict[str, msgspec.Raw])
        kept: dict[str, object] = {key: like[key] for key in ("id", "object", "created", "model") if key in like}
        chunk = {**kept, "choices": [], "context_management": msgspec.Raw(told)}
        return sse.event(msgspec.json.encode(chunk))

    def _observe(self, data: bytes) -> Overflow | None:
        """What one event tells: usage, an error, an overflow. Never raises."""
        if data != sse.DONE and self._tells_edits:
            self._last = data
        self._read_usage(data)
        if not any(word in data for word in _ERRORS):
            return None
        found = classify_event(data)
        self._notes.overflow = self._notes.overflow or found is not None
        if unwrap_event(data) is not None:
            self._notes.outcome = "upstream_error"
        return found

    def _broken(self, error: UpstreamError) -> None:
        self._notes.outcome, self._notes.error_code = "upstream_error", error.code or ""

    # -- both ----------------------------------------------------------------------------------------------------

    async def _start(self, content_length: int | None = None) -> None:
        answer = self._verdict.answer
        changed = content_length is not None and self._tells_edits and not self._verdict.encoding
        length_known = content_length is None and not self._verdict.stream
        headers = to_client(answer.headers, body_changed=changed, length_known=length_known)
        if content_length is not None:
            headers.append((b"content-length", b"%d" % content_length))
        if b"x-request-id" not in dict(headers):
            headers.append((b"x-request-id", self._notes.request_id.encode("latin-1", "replace")))
        if self._shaping is not None:
            headers += report.headers(self._shaping, self._notes.edits, self._notes.gathered)
        if not self._down.started:  # it is for the second try of a stream whose first only kept the client waiting
            await self._down.start(answer.status, headers)


class _Chunk(msgspec.Struct):
    choices: list[msgspec.Raw]
    usage: dict[str, msgspec.Raw]


def _only_usage(data: bytes) -> bool:
    """Whether an event is the extra one that `include_usage` brings: a usage and no choice."""
    if b'"usage"' not in data:
        return False
    try:
        return not msgspec.json.decode(data, type=_Chunk).choices
    except msgspec.DecodeError:
        return False


_ERRORS = (b'rror"', b"response.failed", b"xception", b'"base_resp"')


def _uneventful(chunk: bytes) -> bool:
    """Whether a chunk is whole events, none of which tells anything `Relay._observe` would hear: most are."""
    if not chunk.endswith(b"\n\n") or b'usage"' in chunk:
        return False
    for word in _ERRORS:  # noqa: SIM110  every chunk passes here: a generator would cost as much as the rest
        if word in chunk:
            return False
    return True
