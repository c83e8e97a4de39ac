"""An exchange's part in a stored conversation: which turn its request is, and what its answer reports of it.

Without `[conversations]` there are no turns, and every request is what it was without this module.
"""

from __future__ import annotations

import re
from urllib.parse import parse_qs

from trimtab.conversations import chat, responses
from trimtab.conversations.conversations import Conversations
from trimtab.conversations.elsewhere import Elsewhere, in_background
from trimtab.conversations.file_objects import is_kept
from trimtab.conversations.turns import Turn
from trimtab.dialects.dialect import Name
from trimtab.errors import InvalidRequest
from trimtab.exchange.access import tenant
from trimtab.exchange.calls import Calls
from trimtab.exchange.decide import Shaping
from trimtab.exchange.incoming import Incoming
from trimtab.exchange.offload import LIGHT_KNOWN, planned_beside
from trimtab.exchange.report import CONVERSATION, Part
from trimtab.exchange.uploading import FILES, is_other_api

MODE = b"x-trimtab-conversation-mode"
_OF_RESPONSE = re.compile(r"/v1/responses/([^/]+)(?:/.*)?")
_OF_FILE = re.compile(FILES + r"/([^/]+)(?:/content)?")
_REMOVED = ("dropped", "summarized")


async def turn_of(
    conversations: Conversations | None, incoming: Incoming, dialect: Name, body: bytes, *, reads: bool = False
) -> Turn | Elsewhere | None:
    """The turn that a request is; None for one that has nothing to do with a stored conversation. `reads`: nothing is
    to be stored. Raises NotStored, Conflict, InvalidRequest, StoreUnavailable."""
    if conversations is None:
        return None
    heavy, reads = len(body) > LIGHT_KNOWN, _reads(incoming) or reads
    if dialect == "responses":
        response = await planned_beside(heavy, responses.asked, body, conversations.store_by_default)
        if response is None:
            return conversations.elsewhere(tenant(incoming)) if in_background(body) else None
        return await conversations.response(response, tenant(incoming), reads=reads)
    if dialect != "chat" or CONVERSATION not in incoming.fields:
        return None
    request = await planned_beside(heavy, chat.asked, body)
    name = incoming.header(CONVERSATION).strip()
    return None if request is None else await conversations.chat(request, tenant(incoming), name, reads=reads)


def _reads(incoming: Incoming) -> bool:
    """Whether the request only reads the history. Raises InvalidRequest for an unknown mode, which would write."""
    mode = incoming.header(MODE).strip().lower()
    if mode not in ("", "read"):
        name = MODE.decode()
        raise InvalidRequest(f"Unknown mode in {name}. Send `read`, or leave the header out to write.", param=name)
    return bool(mode)


async def held_by(conversations: Conversations, calls: Calls, incoming: Incoming) -> str | None:
    """The name of the upstream that holds what a request is about; None where it is answered here, "" where it is
    passed on like any other. A response that is not known here is asked for at the first upstream with the client's own
    key. Where all tenants share a key there it is not: the upstream would show each the responses of all others. Raises
    StoreUnavailable."""
    if incoming.endpoint.startswith(FILES):
        return await _file_held_by(conversations, incoming)
    found = _OF_RESPONSE.fullmatch(incoming.endpoint)
    if found is None:
        return None
    place = await conversations.place(found[1], tenant(incoming))
    first = calls.upstreams[0]
    if place is None and calls.tells_apart(first):
        return first.name
    return place or None


async def _file_held_by(conversations: Conversations, incoming: Incoming) -> str | None:
    """None for a file that is kept here and for the list of these; "" for all others, which are passed on."""
    found = _OF_FILE.fullmatch(incoming.endpoint)
    if is_other_api(incoming):
        return ""
    if found is None:
        purpose = parse_qs(incoming.query.decode("latin-1")).get("purpose", [""])[0]
        return None if is_kept(purpose) else ""
    owner = conversations.tenant(tenant(incoming))
    return None if await conversations.files.find(owner, [found[1]]) else ""


async def stateless(turn: Turn) -> bytes:
    """The request to plan and to send: with the whole history. Raises BodyTooLarge."""
    return await planned_beside(turn.history.size > LIGHT_KNOWN, turn.prepare)


def shown(turn: Turn, shaping: Shaping, *, summary: bool) -> Part:
    """What an answer reports of its turn; `summary`: a summary stands in the gap."""
    plan, messages = shaping.plan, len(shaping.history.raws)
    sent = messages - sum([edit.stage in _REMOVED for edit in plan.edits])
    gap = plan.gap
    if gap is None:
        return Part(turn.id, messages, sent)
    stands = "summary" if summary else "extract" if gap.extract else "note" if gap.note else ""
    at = gap.index - (messages - len(turn.new) - len(turn.before))
    item = turn.before[at].id if 0 <= at < len(turn.before) else ""
    return Part(turn.id, messages, sent + (bool(stands) and gap.into is None), gap.index, item, stands)
