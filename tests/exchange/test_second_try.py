"""The one second try: what an upstream reported decides how much smaller, and half of the bytes go after a 413."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.exchange.requests import WINDOW, shaping
from tests.support.conversations import agent_run, prose
from trimtab.context.apply.apply import apply
from trimtab.context.read.memo import Memo
from trimtab.context.texts import REMOVED
from trimtab.exchange.decide import Shaping
from trimtab.exchange.outgoing import outgoing
from trimtab.exchange.second_try import Learned, lighter, smaller
from trimtab.limits import Limit
from trimtab.overflow.classify import Overflow

RUN = agent_run(12)  # about 6,400 tokens in a budget of 7,168


def limited(size: int) -> Limit:
    return Limit(context_size=size, max_output_tokens=1_024, source="learned")


def again(made: Shaping, overflow: Overflow, limit: Limit = WINDOW, factor: float = 1.0) -> Shaping | None:
    return smaller(made, overflow, Learned(limit, factor), Memo())


def test_a_limit_and_a_count_give_a_try_that_fits_by_the_upstreams_own_count() -> None:
    made = shaping(RUN)
    actual = made.plan.sent * 2
    tried = again(made, Overflow("", limit=8_192, actual=actual, actual_kind="input", input_tokens=actual), factor=1.2)
    assert tried is not None
    assert tried.plan.sent * 2 <= 7_168
    assert tried.plan.edits


def test_a_limit_below_what_was_believed_is_planned_for() -> None:
    tried = again(shaping(RUN), Overflow("", limit=4_096), limited(4_096))
    assert tried is not None
    assert tried.budget.usable <= 4_096 - 1_024
    assert tried.plan.sent <= tried.budget.usable


@pytest.mark.parametrize("lower_bound", [True, False])
def test_a_refusal_without_numbers_gives_clearly_less(lower_bound: bool) -> None:
    made = shaping(RUN)
    tried = again(made, Overflow("too long", actual=9_000 if lower_bound else None, lower_bound=lower_bound))
    assert tried is not None
    assert tried.plan.sent <= made.plan.sent * 0.75
    assert tried.plan.edits


def test_where_little_can_be_given_up_a_little_less_is_tried() -> None:
    messages = [{"role": "user", "content": prose(1_000)}, *agent_run(1, 300)[2:]]
    messages += [{"role": "user", "content": prose(5_000, 3)}]
    made = shaping(messages)
    tried = again(made, Overflow("too long"))
    assert tried is not None
    assert made.plan.sent * 0.75 < tried.plan.sent < made.plan.sent


def test_nothing_smaller_can_be_made_of_a_question_alone() -> None:
    made = shaping([{"role": "user", "content": prose(6_000)}])
    assert again(made, Overflow("too long")) is None
    assert again(made, Overflow("", limit=4_096, actual=6_500, actual_kind="input"), limited(4_096)) is None


OUTPUT: list[tuple[dict[str, Any], dict[str, Any], int | None]] = [
    # what was asked for, what the upstream reported → what is asked for then (None: history has to go)
    ({"max_tokens": 6_000}, {"limit": 8_192, "input_tokens": 3_000}, int((8_192 - 3_000) * 0.98)),
    ({"max_completion_tokens": 6_000}, {"limit": 8_192, "input_tokens": 3_000}, int((8_192 - 3_000) * 0.98)),
    ({"max_tokens": 6_000}, {"limit": 8_192, "input_tokens": 5_000}, None),
    ({"max_tokens": 100}, {"limit": 8_192, "input_tokens": 3_000}, None),
    ({"max_tokens": 6_000}, {"limit": 8_192, "input_tokens": 3_000, "lower_bound": True}, None),
    ({"max_tokens": 6_000}, {"limit": 8_192}, None),
    ({"max_tokens": 6_000}, {"input_tokens": 3_000}, None),
    ({}, {"limit": 8_192, "input_tokens": 3_000}, None),
]


@pytest.mark.parametrize(("fields", "reported", "room"), OUTPUT)
def test_where_the_output_is_what_does_not_fit_no_history_goes(
    fields: dict[str, int], reported: dict[str, Any], room: int | None
) -> None:
    made = shaping(agent_run(4), limit=Limit(context_size=16_384, max_output_tokens=8_192), **fields)
    tried = again(made, Overflow("", **reported), limited(8_192))
    if room is None:
        assert tried is None or tried.plan is not made.plan
    else:
        assert tried is not None
        assert tried.plan is made.plan
        body = msgspec.json.decode(outgoing(tried, None, "system", include_usage=False))
        assert body["messages"] == agent_run(4)
        assert {name: body[name] for name in fields} == dict.fromkeys(fields, room)


@pytest.mark.parametrize(
    "reported",
    [
        {},
        {"limit": 4_096},
        {"limit": 100},
        {"limit": 8_192, "actual": 9_000, "actual_kind": "total"},
        {"limit": 8_192, "actual": 12_800, "actual_kind": "input", "input_tokens": 12_800},
        {"actual": 5, "actual_kind": "input", "input_tokens": 5},
        {"limit": 10**7, "actual": 10**8, "actual_kind": "input", "input_tokens": 10**8},
    ],
)
def test_with_any_numbers_the_try_is_smaller_or_there_is_none(reported: dict[str, Any]) -> None:
    made = shaping(RUN)
    limit = limited(min(8_192, reported.get("limit", 8_192)))
    tried = again(made, Overflow("", **reported), limit)
    assert tried is None or tried.plan.sent < made.plan.sent


# -- after too many bytes ------------------------------------------------------------------------------------------

ROOMY = Limit(context_size=200_000, max_output_tokens=1_024, source="configured")
DATA = "A" * 5_000
HEAVY: dict[str, dict[str, Any]] = {
    "image": {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}},
    "audio": {"type": "input_audio", "input_audio": {"data": DATA, "format": "wav"}},
    "file": {"type": "file", "file": {"filename": "a.pdf", "file_data": DATA}},
    "video": {"type": "video_url", "video_url": {"url": f"data:video/mp4;base64,{DATA}"}},
}
LINK = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
TEXT = {"type": "text", "text": "x" * 5_000, "vendor": 1.0}


def message(*parts: Any, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": list(parts)}


def test_each_kind_of_payload_becomes_a_few_words_and_all_else_stays() -> None:
    for kind, part in HEAVY.items():
        held = shaping([message(TEXT, part, LINK), message(TEXT)], limit=ROOMY)
        found = lighter(held, Memo())
        assert found is not None
        first, last = apply(held.request.messages, found.plan)
        text = {"type": "text", "text": REMOVED[kind]}
        assert bytes(shaping([message(TEXT, text, LINK)]).request.messages[0]) == bytes(first)
        assert bytes(last) == bytes(held.request.messages[1])


def test_half_of_the_bytes_go_the_oldest_first() -> None:
    messages = [message(HEAVY["image"]) for _ in range(11)]
    found = lighter(shaping(messages, limit=ROOMY), Memo())
    assert found is not None
    assert [edit.index for edit in found.plan.edits] == [0, 1, 2, 3, 4, 5]
    assert found.plan.sent < found.plan.original


def test_question_system_and_what_is_light_stay() -> None:
    image = HEAVY["image"]
    assert lighter(shaping([message(image, role="system"), message(image)]), Memo()) is None
    assert lighter(shaping([message(LINK), message(TEXT), message("x")]), Memo()) is None
    assert lighter(shaping([{"role": "user", "content": DATA}, message("x")]), Memo()) is None
    assert lighter(shaping([message(image), message({"type": "text", "text": "y" * 10**6})]), Memo()) is None
