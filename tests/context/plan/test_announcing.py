"""Where the announcement goes, and that it goes there once."""

from __future__ import annotations

import msgspec
import pytest

from tests.context.plans import planned, policy, staged, tokens
from tests.dialects.items import encoded, message
from tests.support.messages import assistant, msg, prose, system, tool_loop, user
from trimtab.context.apply.apply import apply
from trimtab.context.apply.format import CHAT
from trimtab.context.apply.rewrite import announce
from trimtab.context.apply.writing import own_announcement
from trimtab.context.edits import Announcement
from trimtab.context.plan.announcing import ANNOUNCEMENT_TOKENS, announcement
from trimtab.context.plan.plan import plan
from trimtab.context.policy import Policy
from trimtab.context.read.history import history
from trimtab.context.read.memo import Memo
from trimtab.context.texts import ANNOUNCEMENT, NOTE
from trimtab.dialects.messages import MESSAGES
from trimtab.dialects.responses import RESPONSES
from trimtab.exchange.decide import Shaping, decide
from trimtab.exchange.outgoing import outgoing
from trimtab.limits import DEFAULT

TOOLS = [b'[{"type":"function","function":{"name":"read_file"}}]']
ON = policy(announce=True)
LARGE = 10**6
STANDING = system(f"Be careful.{ANNOUNCEMENT}")

JOINED: dict[str, tuple[list[bytes], list[bytes], int | None]] = {
    "with tools": ([system(), user()], TOOLS, 0),
    "to a developer message": ([msg("developer"), user()], TOOLS, 0),
    "to the first that has a text": ([system(7), system(), system(), user()], TOOLS, 1),
    "to an empty one": ([system(None), user()], TOOLS, 0),
    "without tools": ([system(), user()], [], None),
    "where it stands already": ([system(), STANDING, user()], TOOLS, None),
    "without messages": ([], TOOLS, None),
    "with nothing but an opaque system message": ([system(7)], TOOLS, None),
}


@pytest.mark.parametrize(("raws", "extras", "at"), JOINED.values(), ids=JOINED)
def test_it_joins_a_leading_system_message(raws: list[bytes], extras: list[bytes], at: int | None) -> None:
    found = planned(raws, ON, LARGE, extras)
    added = 0 if at is None else tokens([announce(raws[at])]) - tokens([raws[at]])
    assert found.announce == (None if at is None else Announcement(at, added))
    assert found.sent == found.original + added
    assert found.changes == (at is not None)


OWN = {
    "before a user message": ([user()], 0),
    "before a greeting": ([assistant("Hello."), user()], 0),
    "after a system message of no known form": ([system(7), user()], 1),
    "not into a reminder within the conversation": ([user(), assistant(), system(), user()], 0),
}


@pytest.mark.parametrize(("raws", "at"), OWN.values(), ids=OWN)
def test_without_a_leading_system_message_it_is_one_of_its_own(raws: list[bytes], at: int) -> None:
    found = planned(raws, ON, LARGE, TOOLS)
    assert found.announce == Announcement(at, tokens([own_announcement(CHAT)]), own=True)
    sent = apply(raws, found)
    assert sent == [*raws[:at], own_announcement(CHAT), *raws[at:]]
    assert tokens(sent, TOOLS) == found.sent


@pytest.mark.parametrize("strict", [False, True])
def test_planning_again_what_was_sent_announces_nothing_where_the_note_stands_first(strict: bool) -> None:
    """The note comes to the front where a greeting was removed. The sentence must not join it there: each request after
    would be larger by it."""
    raws = [assistant(prose(1_500)), user(prose(200)), *tool_loop(2, 600), assistant(), user()]
    rules = msgspec.structs.replace(ON, strict_roles=strict)
    budget = tokens(raws, TOOLS) // 3
    found = planned(raws, rules, budget, TOOLS)
    sent = [bytes(raw) for raw in apply(raws, found, summary_role="user" if strict else "system")]
    assert found.fits
    assert sent[0] == own_announcement(CHAT)
    assert strict or msgspec.json.decode(sent[1])["content"].startswith(NOTE)
    again = planned(sent, rules, budget, TOOLS)
    assert (again.announce, again.edits) == (None, ())


def test_every_request_of_a_run_begins_with_it() -> None:
    """From the first on, through clearing and dropping: so it never changes a prefix."""
    raws = [user("Begin."), *tool_loop(40, 1_200)]
    stages: set[str] = set()
    for end in range(1, len(raws) + 1, 2):
        found = planned(raws[:end], ON, 3_000, TOOLS)
        stages |= staged(found).keys()
        assert bytes(apply(raws[:end], found)[0]) == own_announcement(CHAT)
    assert {"cleared", "dropped"} <= stages


def test_in_a_responses_request_it_stands_after_the_tools_that_come_as_an_item() -> None:
    memo = Memo(view=RESPONSES.format.view, digest=RESPONSES.format.digest)
    items = [encoded(type="additional_tools", role="developer", tools=[]), message("hi")]
    found = announcement(history(items, TOOLS, memo), ON, memo, RESPONSES.format)
    assert found is not None
    assert (found.index, found.own) == (1, True)


def test_an_input_that_is_one_text_becomes_a_message_beside_it() -> None:
    body = msgspec.json.encode({"model": "m", "input": 'Say "hi".', "tools": [{"type": "function", "name": "f"}]})
    request, memo = RESPONSES.decode(body), Memo(view=RESPONSES.format.view, digest=RESPONSES.format.digest)
    found = plan(history(request.messages, request.extras, memo), ON, LARGE, memo, RESPONSES.format)
    sent = msgspec.json.decode(
        RESPONSES.render(request, apply(request.messages, found, format=RESPONSES.format), {}), type=dict[str, object]
    )
    assert sent["input"] == [
        msgspec.json.decode(own_announcement(RESPONSES.format)),
        {"type": "message", "role": "user", "content": 'Say "hi".'},
    ]


PROMPTS: dict[str, tuple[object, object]] = {
    "none": (None, ANNOUNCEMENT.strip()),
    "a text": ("Be careful.", f"Be careful.{ANNOUNCEMENT}"),
    "blocks": (
        [{"type": "text", "text": "Be careful.", "cache_control": {"type": "ephemeral"}}],
        [
            {"type": "text", "text": "Be careful.", "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": ANNOUNCEMENT.strip()},
        ],
    ),
}


@pytest.mark.parametrize(("prompt", "becomes"), PROMPTS.values(), ids=PROMPTS)
def test_in_a_messages_request_it_stands_in_the_system_prompt_and_once(prompt: object, becomes: object) -> None:
    fields = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    tools = [{"name": "read_file", "input_schema": {"type": "object"}}]
    body = msgspec.json.encode({**fields, "tools": tools, **({"system": prompt} if prompt else {})})
    shaping = decided(body)
    assert shaping.plan.announce == Announcement(0, ANNOUNCEMENT_TOKENS)
    assert shaping.plan.sent == shaping.plan.original + ANNOUNCEMENT_TOKENS
    sent = outgoing(shaping, None, "system", include_usage=False)
    assert msgspec.json.decode(sent) == {**msgspec.json.decode(body), "system": becomes}
    again = decided(sent)
    assert again.plan.announce is None
    assert outgoing(again, None, "system", include_usage=False) == sent
    assert decided(msgspec.json.encode({**fields, "system": "Be careful."})).plan.announce is None


def decided(body: bytes) -> Shaping:
    request, memo = MESSAGES.decode(body), Memo(view=MESSAGES.format.view, digest=MESSAGES.format.digest)
    conversation = history(request.messages, request.extras, memo)
    return decide(request, conversation, ON, DEFAULT, 1.0, memo, dialect=MESSAGES)


def test_it_is_off_by_default() -> None:
    assert planned([system(), user()], Policy(), LARGE, TOOLS).announce is None
