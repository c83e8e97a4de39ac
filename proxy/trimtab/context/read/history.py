"""A conversation as received, as the planner takes it: raw messages, their views, and what else the model reads."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Raw

from trimtab.context.read.openings import Found
from trimtab.context.read.views import Memo, View
from trimtab.wire.messages import Messages


class History(msgspec.Struct, frozen=True):
    """A conversation as received: its messages, their views, and the tokens of what else the model reads (tools,
    response format, prediction). `tokens` is all of it; `marked`: which messages have the `pinned` mark."""

    raws: Sequence[bytes | Raw]
    views: Sequence[View]
    extras: int
    tokens: int
    marked: tuple[int, ...] = ()


def history(raws: Sequence[bytes | Raw], extras: Sequence[bytes | Raw], memo: Memo) -> History:
    """Read a conversation. `extras` are the raw JSON of tools and the like."""
    views, beside = memo.views(raws), memo.extras(extras)
    marked = tuple([i for i, view in enumerate(views) if view.marked])
    return History(raws, views, beside, beside + sum([view.tokens for view in views]), marked)


def resumed(found: Found, messages: Messages, extras: Sequence[bytes | Raw], memo: Memo) -> History:
    """Read a conversation of which the first messages were found to be known: only the fresh ones are looked at."""
    opening = found.opening
    if opening is None:
        return history(messages, extras, memo)
    rest = history(messages.fresh, extras, memo)
    marked = opening.marked + tuple([i + len(found.views) for i in rest.marked])
    return History(messages, [*found.views, *rest.views], rest.extras, opening.tokens + rest.tokens, marked)
