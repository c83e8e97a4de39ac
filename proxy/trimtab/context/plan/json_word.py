"""The word "json" in a request for a JSON object. OpenAI refuses `json_object` where no message has it, so a request
that was valid must not lose the last message that says it. Where it would, the system message says it.
"""

from __future__ import annotations

from msgspec import Raw

from trimtab.context.estimate.tokens import MESSAGE_OVERHEAD, text_tokens
from trimtab.context.plan.state import State
from trimtab.context.texts import JSON_WORD

JSON_WORD_TOKENS = text_tokens(f"\n\n{JSON_WORD}") + MESSAGE_OVERHEAD
"""The most it takes: as a message, or as an end of one."""


def loses_json_word(state: State) -> bool:
    """True when messages have the word, and none of those that are sent unchanged.

    What came after the frontier's last move is not looked at, so that the answer changes only where the prefix breaks
    anyway. Every message is read: this is for requests that need the word and are shaped.
    """
    if not state.edits:
        return False
    raws, until = state.structure.raws, state.compaction.moved_at or state.end
    kept = [raw for i, raw in enumerate(raws[:until]) if i not in state.edits]
    return not any(map(_has_word, kept)) and any(map(_has_word, raws))


def _has_word(raw: bytes | Raw) -> bool:
    return b"json" in bytes(raw).lower()
