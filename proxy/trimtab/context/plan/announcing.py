"""Where the announcement goes: the one sentence that tells the model of a request with tools that older results are
cleared when room is short (`announce` in `[shaping]`).

It stands there from the first request on, in the same place in every later one, so it never changes a prefix. What
stays first in a request are the leading system messages: it joins the first of them that has a text. Where there is
none it is a system message of its own, before all that can be removed. It is the only one then, which chat templates
that refuse a second system message take too. A request that has the sentence already, as one that was planned before,
gets it no second time. Where the system prompt is not one of the messages, the dialect writes it there.
"""

from __future__ import annotations

from trimtab.context.apply.format import Format
from trimtab.context.apply.writing import own_announcement
from trimtab.context.edits import Announcement
from trimtab.context.estimate.tokens import text_tokens
from trimtab.context.policy import Policy
from trimtab.context.read.history import History
from trimtab.context.read.memo import Memo
from trimtab.context.read.structure import SYSTEM_ROLES
from trimtab.context.texts import ANNOUNCEMENT

ANNOUNCEMENT_TOKENS = text_tokens(ANNOUNCEMENT)
"""What it takes in a system prompt that is not one of the messages."""

_SENTENCE = ANNOUNCEMENT.strip().encode()  # plain ASCII without a quote: the same bytes in any JSON


def announcement(conversation: History, policy: Policy, memo: Memo, format: Format) -> Announcement | None:
    """Where the announcement goes and what it takes; None where there is none."""
    views, raws = conversation.views, conversation.raws
    if not policy.shaping.announce or not conversation.extras or not views:
        return None
    if format.announce is None:
        return Announcement(0, policy.announced_beside) if policy.announced_beside else None
    first = None  # the first system message with a text
    own = 0  # the first message that is not an opaque system message
    for i, view in enumerate(views):
        if view.role not in SYSTEM_ROLES:
            break
        if _SENTENCE in bytes(raws[i]):
            return None
        if view.shape != "opaque":
            first = i if first is None else first
        elif own == i:
            own = i + 1
    if first is not None:
        return Announcement(first, memo.view(format.announce(raws[first])).tokens - views[first].tokens)
    if own == len(views):
        return None
    return Announcement(own, memo.view(own_announcement(format)).tokens, own=True)
