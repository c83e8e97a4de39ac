"""From a history, a policy and a budget to a plan. Pure: nothing is fetched, changed or awaited here.

The planner replays the history (see `state`): at every boundary, where a request once was made, and at the end, it
runs the stages below in their order, each only if the one before was not enough.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from trimtab.context.apply.format import CHAT, Format
from trimtab.context.edits import Breakdown, Plan
from trimtab.context.plan.announcing import announcement
from trimtab.context.plan.clear import clear
from trimtab.context.plan.drop import drop, drop_all_but_question
from trimtab.context.plan.extracting import fill_gap
from trimtab.context.plan.json_word import JSON_WORD_TOKENS, loses_json_word
from trimtab.context.plan.lookahead import segments_ahead
from trimtab.context.plan.pins import set_target
from trimtab.context.plan.replays import Replays, Terms
from trimtab.context.plan.shorten import squeeze, truncate
from trimtab.context.plan.state import State
from trimtab.context.plan.summarize import summarize
from trimtab.context.policy import Policy
from trimtab.context.read.history import History
from trimtab.context.read.memo import Memo
from trimtab.context.read.structure import boundaries, structure

# The order is the design.
STAGES: tuple[Callable[[State], None], ...] = (
    truncate,  # a scrape or a file dump costs most and is missed least
    clear,  # an old tool result can be fetched again by running the tool
    summarize,  # a conversation is kept in fewer words, where there is a model to write them
    drop,  # or the oldest part goes
    squeeze,  # what must stay shares what is left
    drop_all_but_question,  # before the request is refused, everything but the question goes
)


def plan(
    conversation: History,
    policy: Policy,
    budget: int,
    memo: Memo,
    format: Format = CHAT,
    replays: Replays | None = None,
) -> Plan:
    """What to do with a request. `budget`: what its input may take, in estimated tokens. A conversation of which a
    beginning is in `replays` is planned from there on."""
    original, announced = conversation.tokens, announcement(conversation, policy, memo, format)
    added = 0 if announced is None else announced.tokens
    if not _needs_replay(conversation, policy, original + added, budget):
        return Plan(original, original + added, budget, True, unpin=conversation.marked, announce=announced)
    room = budget - JSON_WORD_TOKENS if policy.needs_json_word else budget
    terms = Terms(policy, max(1, room), conversation.extras + added, format)
    state = _replay(conversation, terms, memo, replays)
    edits, (in_gap, spare) = state.ordered_edits, fill_gap(state)
    json_word = policy.needs_json_word and loses_json_word(state)
    sent = state.size + JSON_WORD_TOKENS * json_word - spare
    made = Plan(
        original=original,
        sent=sent,
        budget=budget,
        fits=sent <= budget,
        spare=spare,
        edits=edits,
        gap=in_gap,
        summary=tuple(state.compaction.segments[: state.compaction.covered]),
        breakdown=_breakdown(state, terms.fixed, conversation),
        prefix_break=state.prefix_break,
        unpin=tuple(i for i in conversation.marked if not state.gone[i]),
        unbind=tuple(i for i in state.unbound if not state.gone[i]),
        announce=announced,
        json_word=json_word,
    )
    if replays is not None:
        replays.keep(state, terms, conversation.prefix, copied=policy.compaction)
    if not policy.compaction:
        return made
    state.size += JSON_WORD_TOKENS * json_word
    ahead = segments_ahead(state)
    return msgspec.structs.replace(made, ahead=ahead) if ahead else made


def _needs_replay(conversation: History, policy: Policy, size: int, budget: int) -> bool:
    """False when no boundary of this history can have needed shaping. Sizes only grow along a history, so one that
    fits as a whole fitted at each of its boundaries."""
    shaping, views = policy.shaping, conversation.views
    ahead = policy.compaction and size > budget * policy.precompact_share
    messages, most, many = len(views), shaping.max_messages, shaping.summarize_after_messages
    return bool(
        size > budget
        or (policy.trigger_tokens and size > policy.trigger_tokens)
        or ahead
        or (most and messages > most)
        or (many and messages > many)
        or policy.trigger_tool_uses is not None
        or (shaping.truncate == "always" and any(v.chars > shaping.max_message_chars for v in views))
    )


def _replay(conversation: History, terms: Terms, memo: Memo, replays: Replays | None) -> State:
    """Walk the history, from where it was left where that is known; at each boundary run the stages that are needed
    there."""
    raws, views, policy = conversation.raws, conversation.views, terms.policy
    known = replays.take(views, terms, memo, conversation.prefix) if replays is not None else None
    if known is not None:
        state = known
        state.extend(structure(raws, views, known.structure))
    else:
        views = [*views]  # each is looked at again and again
        state = State(structure(raws, views), terms.fixed, policy, terms.budget, memo, terms.format)
    always = policy.shaping.truncate == "always"
    for end in boundaries(views, state.end) if known is None or state.end < len(views) else ():
        state.advance(end)
        if always and state.oversized:
            truncate(state)
        if end and state.needs_shaping:
            set_target(state)
            for stage in STAGES:
                if state.needs_shaping:
                    stage(state)
        if policy.binds_thinking and state.first_change is not None:
            _unbind(state)
    return state


def _unbind(state: State) -> None:
    """Take the thinking out of every message from the first change on, for good. What comes after this boundary is
    made after what is sent now, and stays valid as long as nothing before it changes again."""
    for i in range(state.first_change or 0, state.end):
        bound = state.structure.views[i].bound_tokens
        if bound and i not in state.unbound and not state.gone[i]:
            state.unbound[i] = None
            state.sent[i] -= bound
            state.size -= bound


def _breakdown(state: State, fixed: int, conversation: History) -> Breakdown:
    """What cannot be removed. `fixed`: tokens beside the messages, those of an announcement among them."""
    views, instructions = state.structure.views, conversation.instructions
    system = instructions + state.fixed - fixed + sum([views[i].tokens for i in state.reminders])
    question = sum([state.sent[i] for i in (*state.users[-1:], *state.structure.prefill)])
    return Breakdown(system, conversation.extras - instructions, question)
