"""The one other try after an upstream said that a body has too many bytes (a 413 that is no overflow): the same
conversation without the oldest of the images, sounds and files that it carries along. Tokens tell nothing here: an
image costs some hundred of them and some megabytes.

How many bytes an upstream takes is seldom said, so half of them go, the oldest first; the system messages and the
current question stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from trimtab.context.apply.rewrite import rewrite
from trimtab.context.edits import Edit
from trimtab.context.read.structure import SYSTEM_ROLES
from trimtab.context.read.views import Memo
from trimtab.exchange.shape import Shaping

_SHARE = 0.5  # of the body's bytes
_LEAST = 0.1  # below this share of them a second try would meet the same bound


def lighter(shaping: Shaping, memo: Memo) -> Shaping | None:
    """The same decision with the oldest payloads taken out; None where too little could be."""
    whole = len(shaping.request.body)
    edits, freed = [], 0
    for edit, bytes_ in _lightened(shaping, memo):
        if freed >= whole * _SHARE:
            break
        edits.append(edit)
        freed += bytes_
    if freed < whole * _LEAST:
        return None
    plan = shaping.plan
    sent = plan.sent - sum(edit.tokens_before - edit.tokens_after for edit in edits)
    ordered = tuple(sorted([*plan.edits, *edits], key=lambda edit: edit.index))
    return msgspec.structs.replace(shaping, plan=msgspec.structs.replace(plan, edits=ordered, sent=sent))


def _lightened(shaping: Shaping, memo: Memo) -> Iterator[tuple[Edit, int]]:
    """Oldest first, each message that can be made lighter, and by how many bytes."""
    views = shaping.conversation.views
    question = max((i for i, view in enumerate(views) if view.role == "user"), default=None)
    edited = {edit.index for edit in shaping.plan.edits}
    for i, view in enumerate(views):
        if view.shape != "parts" or view.role in SYSTEM_ROLES or i == question or i in edited:
            continue
        raw = shaping.request.messages[i]
        light = rewrite(raw, "lightened", 0)
        freed = len(bytes(raw)) - len(light)
        if freed > 0:
            tokens = memo.view(light).tokens
            yield Edit("lightened", i, view.tokens, min(tokens, view.tokens), "carried too many bytes"), freed
