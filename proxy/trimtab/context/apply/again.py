"""Writing a changed message again as it was written before, without reading it.

Every request of a conversation repeats what was shortened in the one before. What is remembered are origins (see
`origins`): places in a message, found by its digest, and never text. What is sent is cut from the request at hand.
"""

from __future__ import annotations

from array import array

import msgspec
from msgspec import Raw

from trimtab.context.apply.clearing import cleared_result
from trimtab.context.apply.format import Format
from trimtab.context.apply.origins import NOWHERE, Origins, origins_of, quickly, weight, written_again
from trimtab.context.apply.rewrite import placeholder
from trimtab.context.edits import Stage
from trimtab.context.estimate.tokens import text_tokens
from trimtab.context.read.memo import Memo
from trimtab.context.read.views import PLACEHOLDER_TOKENS, View

_ONCE = array("i")  # written once; origins that cost more than writing are looked for the second time


class Change(msgspec.Struct, frozen=True, gc=False):
    """What is done to a message that stays: an edit, if it has one, and what else is taken out or added."""

    stage: Stage | None
    amount: int = 0
    unpin: bool = False
    unbind: bool = False
    announce: bool = False


def is_exact(source: bytes, format: Format) -> bool:
    """True for a message whose digest is of all its bytes. One with a mark for the provider's cache has the digest of
    others, in which nothing stands in the same place: it is read each time."""
    return format.canonical(source) is source


def rewritten(raw: bytes | Raw, key: bytes, change: Change, format: Format, memo: Memo | None) -> bytes | Raw:
    """A message after a change; `key`: its digest."""
    source = bytes(raw)
    if memo is None or not key or not is_exact(source, format):
        return _changed(raw, change, format)
    known: Origins | None = memo.get((key, change))
    if known:
        return written_again(known, source)
    written = _changed(raw, change, format)
    if known is None or known is _ONCE:
        made = bytes(written)
        known = (quickly(made, source) or _ONCE) if known is None else (origins_of(made, source) or NOWHERE)
        _remember(memo, key, change, known)
    return written


def _changed(raw: bytes | Raw, change: Change, format: Format) -> bytes | Raw:
    data = raw if change.stage is None else format.rewrite(raw, change.stage, change.amount)
    data = format.unpin(data) if change.unpin else data
    data = format.unbind(data) if change.unbind else data
    return format.announce(data) if change.announce and format.announce is not None else data


def origins(key: bytes, change: Change, memo: Memo) -> Origins | None:
    """The origins of a message after a change; empty for `NOWHERE`, None where they may be found later."""
    known: Origins | None = memo.get((key, change))
    return None if known is _ONCE else known


def measured(raw: bytes | Raw, view: View, stage: Stage, amount: int, format: Format, memo: Memo) -> int:
    """Tokens of a message after an edit, which is made only where its size cannot be found without it."""
    if stage == "cleared" and amount < 0 and view.shape == "text":
        return view.cleared_tokens - PLACEHOLDER_TOKENS + text_tokens(placeholder(amount))
    change = Change(stage, amount)
    if stage == "cleared" and view.shape == "text":
        source = bytes(raw)
        found = cleared_result(source, format.result_field, amount)
        if found is not None:
            if found.origins is not None and is_exact(source, format):
                _remember(memo, view.digest, change, found.origins)
            return view.cleared_tokens - PLACEHOLDER_TOKENS + found.content_tokens
    return format.view(rewritten(raw, view.digest, change, format, memo)).tokens


def _remember(memo: Memo, key: bytes, change: Change, origins: Origins) -> None:
    memo.put((key, change), origins, 1 + weight(origins))
