"""Every path that is not a chat completion: passed on as it is, body and answer byte for byte.

Where there are several upstreams, the model a request names decides which one gets it, so a JSON body is read to find
that model; and `GET /v1/models` is one list of the models of all.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from urllib.parse import unquote

import msgspec
from msgspec import Raw

from trimtab.dialects.paths import beside_managed
from trimtab.errors import NotStored, TrimtabError, UnknownModel
from trimtab.exchange.access import carried, credential
from trimtab.exchange.calls import Calls
from trimtab.exchange.incoming import BODILESS, Body, Downstream, Incoming, reply
from trimtab.exchange.notes import Notes
from trimtab.exchange.offload import LIGHT_KNOWN, LIGHT_NEW, planned_beside, read_beside
from trimtab.exchange.outgoing import unread_without_marks
from trimtab.exchange.relay import RelayOptions, relay
from trimtab.exchange.spellings import deployment_of, is_azure
from trimtab.exchange.verdict import Verdict, encoding_of
from trimtab.upstream.routing import origin, route
from trimtab.upstream.settings import UpstreamSettings
from trimtab.wire.body import replace_lone_surrogates
from trimtab.wire.media import JSON_HEADER, is_json
from trimtab.wire.request import LONGEST_MODEL, NOTHING_CARRIED
from trimtab.wire.values import has_more_values

_MODELS = "/v1/models"
_LISTING_S = 5.0  # seconds an upstream has to list its models, where there are several
_MOST_LISTED = 500_000  # JSON values of a listing that is read
_LARGEST_READ_AGAIN = 1 << 20  # bytes of a body that is read in other ways where it is not plain JSON
_NOT_THERE = (404, 405, 501)  # what an upstream answers that has no such response, or holds none at all
_SHOWN = 80  # characters of an unknown id in an error
_NOTHING_ADDED = RelayOptions()


async def pass_through(
    calls: Calls, incoming: Incoming, body: Body, downstream: Downstream, notes: Notes, holder: str = ""
) -> None:
    """Pass a request on and relay its answer; to the upstream `holder` of a response, where that is given. Raises
    UnknownModel, NotStored where that holder has no such response, and what reading a body and calling raise."""
    notes.outcome = "unmanaged"
    several = len(calls.upstreams) > 1
    lists = incoming.method == "GET" and incoming.endpoint == _MODELS and not is_azure(incoming.path)
    if several and lists:
        listing = await _listing(calls, incoming)
        if listing is not None:
            notes.status = 200
            await reply(downstream, 200, [JSON_HEADER], listing, incoming.request_id)
            return
    content, changed = await _content(incoming, body, notes, several=several)
    read = content if isinstance(content, bytes) else b""
    held = next((each for each in calls.upstreams if holder and each.name == holder), None)
    upstream = held or upstream_of(calls, incoming, read)
    notes.upstream = upstream.name
    answer = await calls.send(upstream, incoming, content, notes, body_changed=changed)
    if holder and answer.status in _NOT_THERE:
        await answer.aclose()
        raise NotStored(f"Response with id '{incoming.endpoint.split('/')[3][:_SHOWN]}' not found.")
    await relay(Verdict(answer, encoding=encoding_of(answer)), downstream, notes, _NOTHING_ADDED)


async def _content(
    incoming: Incoming, body: Body, notes: Notes, *, several: bool
) -> tuple[bytes | AsyncIterator[bytes], bool]:
    """The body to send, as it comes, or read where its model chooses the upstream, or its messages may be marked; and
    whether that changed it."""
    if incoming.method in BODILESS:
        return b"", False
    dialect = beside_managed(incoming.endpoint)
    if not is_json(incoming.header(b"content-type")) or not (several or dialect is not None):
        return body.chunks(), False
    with notes.waiting():
        content = received = await body.read()
    if dialect is not None:
        content = await planned_beside(len(content) > LIGHT_KNOWN, unread_without_marks, content, dialect)
    return content, content is not received or bool(content and incoming.header(b"content-encoding"))


def upstream_of(calls: Calls, incoming: Incoming, body: bytes) -> UpstreamSettings:
    """Where a request goes that is not a readable chat; the first upstream for one that names no model. Raises
    UnknownModel."""
    return calls.route(named_model(incoming, body) if len(calls.upstreams) > 1 else None)


class _Named(msgspec.Struct):
    model: Raw = Raw(b"null")


def named_model(incoming: Incoming, body: bytes) -> str | None:
    """The model a request is about: its body's `model`, or the part of the path that names it (`/v1/models/NAME`,
    `/openai/deployments/NAME/…`). None where it names none, or in a way that cannot be read, or at a length that no
    name has: the upstream will refuse that itself. Never raises."""
    if incoming.path.startswith(_MODELS + "/"):
        return unquote(incoming.path[len(_MODELS) + 1 :]) or None
    for source in _readings(body):
        try:
            model = msgspec.json.decode(msgspec.json.decode(source, type=_Named).model)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
        if isinstance(model, str):
            return model if len(model) <= LONGEST_MODEL else None
        return deployment_of(incoming.path) or None
    found = _leniently(body) if len(body) <= _LARGEST_READ_AGAIN else None
    return found or deployment_of(incoming.path) or None


class _Streamed(msgspec.Struct):
    stream: bool | None = None


def asks_for_stream(body: bytes) -> bool:
    """True for a body that asks for a stream, though it is not managed or not understood. Never raises."""
    try:
        return bool(msgspec.json.decode(body, type=_Streamed).stream)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False


def _readings(body: bytes) -> Iterator[bytes]:
    """A body as it is, and as it can be read where characters of it are broken."""
    if body:
        yield body
    if 0 < len(body) <= _LARGEST_READ_AGAIN:
        yield replace_lone_surrogates(body)


def _leniently(body: bytes) -> str | None:
    """What other readers accept as JSON, and upstreams may: a byte order mark, NaN, UTF-16."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    model = value.get("model") if isinstance(value, dict) else None
    return model if isinstance(model, str) else None


# -- one list of models ------------------------------------------------------------------------------------------


async def _listing(calls: Calls, incoming: Incoming) -> bytes | None:
    """The models of all upstreams as one list; None where no upstream lists any: then the request is passed on like
    any other. The client's key and headers go to the first upstream's server alone, as they would if there were no
    others."""
    first = origin(calls.upstreams[0].base_url)
    got = await asyncio.gather(
        *(_listed(calls, each, incoming if origin(each.base_url) == first else None) for each in calls.upstreams)
    )
    if not any(got):
        return None
    heavy = sum(len(listing or b"") for listing in got) > LIGHT_NEW >> 3
    return await read_beside(heavy, merged, [*zip(calls.upstreams, got, strict=True)], calls.upstreams)


async def _listed(calls: Calls, upstream: UpstreamSettings, incoming: Incoming | None) -> bytes | None:
    key, way = (b"", NOTHING_CARRIED) if incoming is None else (credential(incoming), carried(incoming))
    try:
        async with asyncio.timeout(_LISTING_S):
            return await calls.ask(upstream, "GET", _MODELS, b"", key, way)
    except (TrimtabError, TimeoutError):
        return None


class _Entry(msgspec.Struct):
    id: str


class _Listing(msgspec.Struct):
    data: list[Raw]


def merged(listings: Iterable[tuple[UpstreamSettings, bytes | None]], upstreams: Sequence[UpstreamSettings]) -> bytes:
    """One list of all that were fetched, entries byte for byte, in the order of the upstreams. A model is listed once:
    by the upstream its requests go to."""
    entries = [raw for upstream, listing in listings for raw in _entries(listing) if _goes_to(raw, upstream, upstreams)]
    return msgspec.json.encode({"object": "list", "data": entries})


def _entries(listing: bytes | None) -> list[Raw]:
    if has_more_values(listing or b"", _MOST_LISTED):
        return []
    try:
        return msgspec.json.decode(listing or b"", type=_Listing).data
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return []


def _goes_to(entry: Raw, upstream: UpstreamSettings, upstreams: Sequence[UpstreamSettings]) -> bool:
    try:
        return route(msgspec.json.decode(entry, type=_Entry).id, upstreams) is upstream
    except (msgspec.MsgspecError, UnicodeDecodeError, UnknownModel):
        return False
