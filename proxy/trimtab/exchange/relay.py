"""The answer's way back. Bytes are relayed as they come; what is read of them is read beside the path.

An answer is inspected before the client sees any of it: an error's body is read, and of a stream the first event,
because an overflow found there can still be mended by a smaller request. A stream whose first event is long in coming
is begun without it; an overflow that comes after that, or later, becomes our one clear error as the last event.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

import msgspec

from trimtab.errors import RequestError, UpstreamError
from trimtab.exchange import report
from trimtab.exchange.incoming import Downstream
from trimtab.exchange.notes import Notes
from trimtab.exchange.policies import is_ours
from trimtab.exchange.pulse import KEEP_ALIVE, Pulse
from trimtab.exchange.shape import Shaping
from trimtab.overflow.classify import Overflow, classify, classify_event
from trimtab.overflow.normalize import normalize
from trimtab.overflow.unwrap import unwrap_event
from trimtab.overflow.vetoes import is_about_rate_or_quota
from trimtab.telemetry import Usage
from trimtab.upstream.answer import Answer
from trimtab.upstream.headers import to_client
from trimtab.wire import problem, sse
from trimtab.wire.encoding import Decoder, decode_body, decoder
from trimtab.wire.media import EVENT_STREAM, JSON
from trimtab.wire.usage import usage_of

_STREAM_LIMIT = 1 << 30  # decoded bytes of a stream that are looked at
ERROR_LIMIT = 1 << 20  # bytes of an error body that are read to understand it
WHOLE_LIMIT = 16 << 20  # bytes of a JSON answer that are held to read its usage; larger ones are relayed unread
# How an event stream begins that is labelled as something else (JSON cannot), and the bytes that it takes to see it.
_EVENTS, _EVENTS_HEAD = re.compile(rb"(?:\xef\xbb\xbf)?[\r\n]*(?:data|event|id|retry)?:"), 9
_HEAD, _HEAD_LIMIT = 64, 16 << 10  # bytes that show whether an event may be an error, and that may be waited for then


class Verdict(msgspec.Struct, frozen=True):
    """An answer and what its beginning says. `body` is the whole of it, where it was read whole; `silent`: a stream
    of which nothing has come yet; `too_many_bytes`: the request's body was too large, whatever its tokens."""

    answer: Answer
    overflow: Overflow | None = None
    body: bytes | None = None
    stream: bool = False
    silent: bool = False
    too_many_bytes: bool = False
    encoding: str = ""

    def blames(self, fields: Iterable[bytes]) -> bool:
        """Whether the request was refused, and one of these fields named in the reason."""
        if not 400 <= self.answer.status < 500 or self.overflow is not None:
            return False
        text = readable(self.body or b"", self.encoding, ERROR_LIMIT)
        return any(field in text for field in fields)


async def inspect(answer: Answer, patience_s: float = 0.0) -> Verdict:
    """Read as much of an answer as it takes to know whether it is an overflow, of a stream for at most `patience_s`
    seconds (0: as long as its first bytes take). Raises what the answer raises."""
    fields = {name.lower(): value for name, value in answer.headers}
    kind, encoding = _value(fields, b"content-type"), _value(fields, b"content-encoding")
    encoding = "" if encoding == "identity" else encoding
    if answer.status >= 400:
        raw = await answer.read(ERROR_LIMIT)
        text = readable(raw, encoding, ERROR_LIMIT)
        found = classify(answer.status, text) if text or not raw else None  # what cannot be read is not empty
        heavy = answer.status == 413 and found is None and not _asks_to_wait(text)
        body = raw if answer.complete else None
        return Verdict(answer, found, body, too_many_bytes=heavy, encoding=encoding)
    if kind.startswith(EVENT_STREAM) or (
        not _plainly_none(fields, kind, encoding) and _EVENTS.match(await answer.read(_EVENTS_HEAD))
    ):
        beginning = _Beginning(answer, encoding, patience_s)
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s or None):
                await beginning.read()
        return Verdict(
            answer,
            beginning.overflow,
            stream=True,
            silent=not beginning.size and not answer.complete,
            encoding=encoding,
        )
    raw = await answer.read(WHOLE_LIMIT)
    if not answer.complete:
        return Verdict(answer, encoding=encoding)
    text = readable(raw, encoding, WHOLE_LIMIT)
    return Verdict(answer, classify(answer.status, text), raw, encoding=encoding)


class _Beginning:
    """The beginning of a stream: `size` bytes of it, up to the first event that says something, and what that is."""

    def __init__(self, answer: Answer, encoding: str, patience_s: float) -> None:
        self._answer, self._patient = answer, patience_s > 0
        self._unpacked = decoder(encoding, _STREAM_LIMIT) if encoding else None
        self._tap, self._text = sse.Tap(), b""
        self.size = 0
        self.overflow: Overflow | None = None

    async def read(self) -> None:
        while True:
            raw = await self._answer.read(self.size + 1)
            new, self.size = raw[self.size :], len(raw)
            text = _decoded(self._unpacked, new)
            self._text += text
            events = self._tap.feed(text) if new else self._tap.flush()
            if events:
                self.overflow = next(filter(None, map(classify_event, events)), None)
                return
            if not new or not self._patient or not self._may_be_an_error():
                return

    def _may_be_an_error(self) -> bool:
        """So far there are comments only, or too little to tell, or the word has been said."""
        text = self._text
        return len(text) < _HEAD_LIMIT and (len(text) < _HEAD or text.startswith(b":") or b"error" in text)


def _plainly_none(fields: Mapping[bytes, bytes], kind: str, encoding: str) -> bool:
    """Whether an answer is no stream under another label, as most say themselves: JSON of a given length. What is
    compressed is taken at its word."""
    return bool(encoding) or (b"content-length" in fields and kind.startswith(JSON))


def _asks_to_wait(text: bytes) -> bool:
    """Whether an error is about a rate: some of those come as a 413, and fewer bytes at once are no answer to them."""
    return is_about_rate_or_quota(normalize(text[:_HEAD_LIMIT].decode("utf-8", "replace")))


def readable(raw: bytes, encoding: str, limit: int) -> bytes:
    """The decoded bytes, or none when they cannot be read: what only watches must not fail an answer."""
    try:
        return (decode_body(raw, encoding, limit) or b"") if encoding else raw
    except RequestError:
        return b""


def _value(fields: Mapping[bytes, bytes], name: bytes) -> str:
    return fields.get(name, b"").decode("latin-1").strip().lower()


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
            self._read_usage(readable(raw, verdict.encoding, WHOLE_LIMIT))

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
        unpacked = decoder(self._verdict.encoding, _STREAM_LIMIT) if self._verdict.encoding else None
        async for chunk in self._verdict.answer.chunks():
            if unpacked is not None or not tap.idle or not _uneventful(chunk):
                began = tap.idle
                found = [self._observe(data) for data in tap.feed(_decoded(unpacked, chunk))]
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


def _decoded(unpacked: Decoder | None, chunk: bytes) -> bytes:
    if unpacked is None:
        return chunk
    try:
        return unpacked.feed(chunk)
    except RequestError:
        return b""
