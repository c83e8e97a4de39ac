"""The gap with what stands in it: the note or summary, and the extract of the removed messages.

The walk counts the extract at the most it may take, so it need not be chosen at every boundary: it is chosen once, at
the end, as of the frontier's last move. What was removed or cleared since is not looked at, so the extract keeps its
bytes until the frontier moves again.
"""

from __future__ import annotations

import msgspec

from trimtab.context.apply.format import AsChat
from trimtab.context.edits import Gap
from trimtab.context.extract.choose import choose
from trimtab.context.plan.alternation import gap
from trimtab.context.plan.frontiers import Chosen
from trimtab.context.plan.state import State
from trimtab.context.read.structure import Structure


def fill_gap(state: State) -> tuple[Gap | None, int]:
    """The gap with its extract, and the tokens that the extract takes less than the replay counted."""
    found, most = gap(state), state.compaction.extract_tokens
    if found is None or not most:
        return found, 0
    if not found.note:
        return found, most
    chosen, moved_at = state.compaction.chosen, state.compaction.moved_at
    if chosen is None or (chosen.moved_at, chosen.most) != (moved_at, most):
        chosen = Chosen(moved_at, most, *choose(_read(state), *_then(state), most, state.memo))
        state.compaction.chosen = chosen
    tokens, total = chosen.tokens, found.tokens + chosen.tokens
    filled = msgspec.structs.replace(found, tokens=total, extract=chosen.excerpts, extract_tokens=tokens)
    return filled, most - tokens


def _then(state: State) -> tuple[list[int], list[int]]:
    """The messages that were removed when the frontier moved last, and those that stayed, tool results apart: these are
    the next to be cleared."""
    compaction, gone = state.compaction, state.gone
    walked = range(compaction.moved_at)
    results = set(state.clearing.results)
    return [i for i in walked if gone[i]], [i for i in walked if not gone[i] and i not in results]


def _read(state: State) -> Structure:
    """The structure with messages that can be read as chat."""
    return msgspec.structs.replace(state.structure, raws=AsChat(state.structure.raws, state.format))
