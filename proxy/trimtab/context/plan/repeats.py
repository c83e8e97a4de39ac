"""Which tool results a later one stands for: the same call was made again, or a call brought the same content.

Such a result has nothing that is not said again, or it is out of date, so it is cleared before others. A later result
that is much shorter stands for nothing: it is an error, or says that nothing has changed. Each result is compared once,
with the newest result of the same call and of the same size, so a step of a conversation compares what is new.
"""

from __future__ import annotations

from trimtab.context.edits import NEWER_LATER, SAME_LATER
from trimtab.context.extract.parts import parts
from trimtab.context.plan.state import State
from trimtab.context.read.views import PLACEHOLDER_TOKENS, View

_LEAST = 64  # tokens that clearing frees; it is not worth more words to say what stands for a shorter result
_MUCH_SHORTER = 2  # times


def compare(state: State) -> None:
    """Note for which results those walked since the last comparison stand. One that has been edited does not stand for
    another."""
    clearing, views = state.clearing, state.structure.views
    repeats = clearing.repeats
    for i in clearing.results[repeats.compared :]:
        if views[i].tokens - views[i].cleared_tokens >= _LEAST and not state.gone[i] and i not in state.edits:
            _compare(state, i)
    repeats.compared = len(clearing.results)


def _compare(state: State, i: int) -> None:
    repeats, view = state.clearing.repeats, state.structure.views[i]
    size = (view.chars, view.text_tokens)
    equal = repeats.by_size.get(size)
    if equal is not None and _is_same(state, equal, i):
        repeats.found[equal] = i, SAME_LATER
    repeats.by_size[size] = i
    call = state.structure.call_of(i)
    if call is None or not call.asks:
        return
    older = repeats.by_call.get(call.asks)
    if older is not None and view.tokens * _MUCH_SHORTER < state.structure.views[older].tokens:
        return
    if older is not None and older not in repeats.found:
        repeats.found[older] = i, NEWER_LATER
    repeats.by_call[call.asks] = i


def _is_same(state: State, i: int, j: int) -> bool:
    """True when two results have the same text, and nothing but text."""
    views, raws, as_chat = state.structure.views, state.structure.raws, state.format.as_chat
    if not (_is_text(views[i]) and _is_text(views[j])):
        return False
    return [part.text for part in parts(as_chat(raws[i]))] == [part.text for part in parts(as_chat(raws[j]))]


def _is_text(view: View) -> bool:
    return view.tokens - view.cleared_tokens == view.text_tokens - PLACEHOLDER_TOKENS
