"""The answer's way back. Bytes are relayed as they come; what is read of them is read beside the path.

An answer is inspected before the client sees any of it: an error's body is read, and of a stream the first bytes,
because an overflow found there can still be mended by a smaller request.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import msgspec

from proxy.errors import RequestError, UpstreamError
from proxy.exchange import report
from proxy.exchange.incoming import Downstream
from proxy.exchange.notes import Notes
from proxy.exchange.policies import is_ours
from proxy.exchange.shape import Shaping
from proxy.telemetry import Usage
from proxy.upstream.answer import Answer
from proxy.upstream.headers import to_client
from proxy.upstream.overflow import Overflow, classify, classify_event
from proxy.upstream.unwrap import unwrap_event
from proxy.wire import problem, sse
from proxy.wire.encoding import Decoder, decode_body, decoder
from proxy.wire.usage import usage_of

_STREAM_LIMIT = 1 << 30  # decoded bytes of a stream that are looked at
ERROR_LIMIT = 1 << 20  # bytes of an error body that are read to understand it
WHOLE_LIMIT = 16 << 20  # bytes of a JSON answer that are held to read its usage; larger ones are relayed unread


class Verdict(msgspec.Struct, frozen=True):
    """An answer and what its beginning says. `body` is the whole of it, where it was read whole."""

    answer: Answer
    overflow: Overflow | None = None
    body: bytes | None = None
    stream: bool = False
    encoding: str = ""


async def inspect(answer: Answer) -> Verdict:
    """Read as much of an answer as it takes to know whether it is an overflow. Raises what the answer raises."""
    fields = {name.lower(): value for name, value in answer.headers}
    kind, encoding = (_value(fields, name) for name in (b"content-type", b"content-encoding"))
    if answer.status >= 400:
        raw = await answer.read(ERROR_LIMIT)
        found = classify(answer.status, readable(raw, encoding, ERROR_LIMIT))
        return Verdict(answer, found, raw if answer.complete else None, encoding=encoding)
    if kind.startswith("text/event-stream"):
        head = await answer.read(1)
        return Verdict(answer, _overflow_of(head, encoding), stream=True, encoding=encoding)
    raw = await answer.read(WHOLE_LIMIT)
    if not answer.complete:
        return Verdict(answer, encoding=encoding)
    text = readable(raw, encoding, WHOLE_LIMIT)
    found = classify(answer.status, text) if b'"error"' in text else None
    return Verdict(answer, found, raw, encoding=encoding)


def _overflow_of(head: bytes, encoding: str) -> Overflow | None:
    for data in sse.Tap().feed(readable(head, encoding, ERROR_LIMIT)):
        if found := classify_event(data):
            return found
    return None


def readable(raw: bytes, encoding: str, limit: int) -> bytes:
    """The decoded bytes, or none when they cannot be read: what only watches must not fail an answer."""
    try:
        return (decode_body(raw, encoding, limit) or b"") if encoding else raw
    except RequestError:
        return b""


def _value(fields: Mapping[bytes, bytes], name: bytes) -> str:
    return fields.get(name, b"").decode("latin-1").strip().lower()


class Relay:
    """One answer on its way to one client."""

    def __init__(self, verdict: Verdict, downstream: Downstream, notes: Notes, shaping: Shaping | None) -> None:
        self._verdict, self._down, self._notes, self._shaping = verdict, downstream, notes, shaping
        request = shaping.request if shaping else None
        self._tells_edits = request is not None and is_ours(request.context_management)
        self._tap = sse.Tap()
        self._last: bytes = b"{}"  # data of the last event: what an inserted chunk copies its id and model from

    async def run(self) -> None:
        """Relay to the end. Raises UpstreamError when the upstream dies before the client got anything."""
        status = self._verdict.answer.status
        self._notes.status = status
        if status >= 400:
            self._notes.outcome = "upstream_error" if status >= 500 else "upstream_rejected"
        if self._verdict.body is not None:
            await self._whole(self._verdict.body)
        elif self._verdict.stream:
            await self._stream()
        else:
            await self._unread()

    # -- an answer in one piece ----------------------------------------------------------------------------------

    async def _whole(self, raw: bytes) -> None:
        verdict = self._verdict
        if verdict.answer.status < 400:
            self._read_usage(readable(raw, verdict.encoding, WHOLE_LIMIT))
            if self._tells_edits and not verdict.encoding:
                raw = self._with_applied_edits(raw)
        await self._start(content_length=len(raw))
        await self._down.end(raw)

    def _read_usage(self, body: bytes) -> None:
        usage = usage_of(body)
        if usage is not None and usage.prompt_tokens is not None:
            self._notes.usage = Usage(usage.prompt_tokens, usage.completion_tokens or 0, usage.cached_tokens)

    def _with_applied_edits(self, raw: bytes) -> bytes:
        """The answer with `context_management` put before its closing brace; nothing else is touched."""
        body = raw.rstrip()
        if not body.endswith(b"}") or self._shaping is None:
            return raw
        told = report.applied_edits(self._shaping, self._notes.edits)
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
        await self._start()
        if self._shaping is not None and self._notes.edits and not self._verdict.encoding:
            await self._down.write(report.comment(self._shaping, self._notes.edits, self._notes.gathered))
        edits = (self._tells_edits or self._notes.asked_usage) and not self._verdict.encoding
        try:
            await (self._edited() if edits else self._untouched())
        except UpstreamError as error:
            self._broken(error)
            await self._down.end(b"\n\n" + problem.sse_event(error))
            return
        await self._down.end()

    async def _untouched(self) -> None:
        """Every byte as it came; the tap reads beside."""
        write, tap = self._down.write, self._tap
        unpacked = decoder(self._verdict.encoding, _STREAM_LIMIT) if self._verdict.encoding else None
        async for chunk in self._verdict.answer.chunks():
            await write(chunk)
            if unpacked is None and tap.idle and _uneventful(chunk):
                continue
            for data in tap.feed(_decoded(unpacked, chunk)):
                self._observe(data)
        for data in tap.flush():
            self._observe(data)

    async def _edited(self) -> None:
        """Event by event: what the client asked of us goes in before the end, the usage that only we asked for
        is taken out again. All other events keep their bytes."""
        editor = sse.Editor()
        async for chunk in self._verdict.answer.chunks():
            if out := b"".join(self._kept(frame) for frame in editor.feed(chunk)):
                await self._down.write(out)
        rest = b"".join(self._kept(frame) for frame in editor.flush())
        await self._down.write(rest + self._applied_edits_event())

    def _kept(self, frame: sse.Frame) -> bytes:
        """What goes to the client in the place of one event."""
        if frame.data is None:
            return frame.raw
        self._observe(frame.data)
        if frame.data == sse.DONE:
            return self._applied_edits_event() + frame.raw
        return b"" if self._notes.asked_usage and _only_usage(frame.data) else frame.raw

    def _applied_edits_event(self) -> bytes:
        """A chunk like the upstream's last, without choices, with the edits; once, if they were asked for."""
        if self._shaping is None or not self._tells_edits:
            return b""
        self._tells_edits = False
        told = report.applied_edits(self._shaping, self._notes.edits)
        like: dict[str, msgspec.Raw] = {}
        with suppress(msgspec.DecodeError):
            like = msgspec.json.decode(self._last, type=dict[str, msgspec.Raw])
        kept: dict[str, object] = {key: like[key] for key in ("id", "object", "created", "model") if key in like}
        chunk = {**kept, "choices": [], "context_management": msgspec.Raw(told)}
        return sse.event(msgspec.json.encode(chunk))

    def _observe(self, data: bytes) -> None:
        """What one event tells: usage, an error, an overflow. Never raises."""
        if data != sse.DONE and self._tells_edits:
            self._last = data
        self._read_usage(data)
        if (b'"error"' in data or b"response.failed" in data) and unwrap_event(data) is not None:
            self._notes.overflow = self._notes.overflow or classify_event(data) is not None
            self._notes.outcome = "upstream_error"

    def _broken(self, error: UpstreamError) -> None:
        self._notes.outcome, self._notes.error_code = "upstream_error", error.code or ""

    # -- both ----------------------------------------------------------------------------------------------------

    async def _start(self, content_length: int | None = None) -> None:
        answer = self._verdict.answer
        changed = content_length is not None and self._tells_edits and not self._verdict.encoding
        headers = to_client(answer.headers, body_changed=changed)
        if content_length is not None or self._verdict.stream:
            headers = [pair for pair in headers if pair[0] != b"content-length"]
        if content_length is not None:
            headers.append((b"content-length", b"%d" % content_length))
        if not any(name == b"x-request-id" for name, _ in headers):
            headers.append((b"x-request-id", self._notes.request_id.encode("latin-1", "replace")))
        if self._shaping is not None:
            headers += report.headers(self._shaping, self._notes.edits, self._notes.gathered)
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


def _uneventful(chunk: bytes) -> bool:
    """Whether a chunk is whole events, none of which tells anything `Relay._observe` would hear: most are."""
    return (
        chunk.endswith(b"\n\n")
        and b'usage"' not in chunk
        and b'"error"' not in chunk
        and b"response.failed" not in chunk
    )


def _decoded(unpacked: Decoder | None, chunk: bytes) -> bytes:
    if unpacked is None:
        return chunk
    try:
        return unpacked.feed(chunk)
    except RequestError:
        return b""
