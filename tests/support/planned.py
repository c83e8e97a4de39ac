"""The notes of a request that was planned, without a server."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.support.conversations import agent_run
from trimtab.context.policy import Policy, ShapingSettings
from trimtab.context.read.history import history
from trimtab.context.read.memo import Memo
from trimtab.exchange.decide import Shaping, decide
from trimtab.exchange.notes import Notes
from trimtab.limits import Limit
from trimtab.wire.chat import decode


def planned(messages: list[dict[str, Any]], context_size: int = 8_192, factor: float = 1.0, **shaping: Any) -> Shaping:
    """What is decided for a chat request, with `shaping` as settings of the policy."""
    request = decode(msgspec.json.encode({"model": "m", "messages": messages}))
    policy = Policy(shaping=ShapingSettings(**shaping))
    limit = Limit(context_size=context_size, max_output_tokens=1_024)
    memo = Memo()
    return decide(request, history(request.messages, request.extras, memo), policy, limit, factor, memo)


def planned_notes(cycles: int) -> Notes:
    """Notes of an agent's run of so many tool calls, planned in a window of 8,192 tokens."""
    notes = Notes("r", "chat")
    notes.model = "m"
    notes.planned(planned(agent_run(cycles)), 0.0)
    return notes
