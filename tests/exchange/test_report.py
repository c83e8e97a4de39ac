"""What the client sees: headers, the comment in a stream, `applied_edits`."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from tests.exchange.requests import shaping
from tests.support.conversations import agent_run, chat, prose
from trimtab.context.apply.apply import apply
from trimtab.context.edits import Edit, Edits, Plan
from trimtab.context.policy import Policy
from trimtab.exchange.decide import Shaping
from trimtab.exchange.explain import explain
from trimtab.exchange.management import CLEAR_TOOL_USES, managed
from trimtab.exchange.report import NO_SUMMARY, Gathered, Report, edited
from trimtab.telemetry import Edited


def planned(*edits: Edit, factor: float = 1.0) -> Shaping:
    """A decision with exactly these edits."""
    made = shaping(chat(1), factor=factor, context_management={"edits": []})
    return msgspec.structs.replace(made, plan=Plan(1_000, 400, 7_168, True, edits=edits))


CLEARED = Edit("cleared", 3, 300, 60, "oldest")
INPUTS = Edit("inputs_cleared", 2, 50, 10, "with the result")
DROPPED = Edit("dropped", 1, 100, 0, "oldest")
SUMMARIZED = Edit("summarized", 1, 100, 0, "oldest")


def test_clearing_a_call_with_its_result_is_one_act() -> None:
    assert edited(planned(DROPPED, INPUTS, CLEARED, CLEARED)) == (
        Edited("cleared", 2, 520),
        Edited("dropped", 1, 100),
    )
    assert edited(planned()) == ()


def test_removed_tokens_are_the_upstreams_own() -> None:
    assert edited(planned(CLEARED, factor=1.5)) == (Edited("cleared", 1, 360),)


def header(made: Shaping, gathered: Gathered = NO_SUMMARY) -> dict[str, str]:
    pairs = Report(made, edited(made), gathered).headers()
    assert len({name for name, _ in pairs}) == len(pairs)
    return {name.decode(): value.decode() for name, value in pairs}


def test_headers_of_a_request_that_was_left_alone() -> None:
    shown = header(shaping(chat(1)))
    original, sent = (int(part.split("=")[1]) for part in shown["x-trimtab-tokens"].split(", ")[:2])
    assert original == sent > 500
    assert shown["x-trimtab-tokens"].endswith("budget=7168")
    assert shown["x-trimtab-edits"] == "truncated=0, cleared=0, summarized=0, dropped=0, squeezed=0"
    assert shown["x-trimtab-limit-source"] == "configured"
    assert set(shown) == {"x-trimtab-tokens", "x-trimtab-edits", "x-trimtab-limit-source"}


def test_headers_of_one_that_was_shaped_and_summarized() -> None:
    shown = header(planned(CLEARED, DROPPED), Gathered("a summary", "miss", 900, 80))
    assert shown["x-trimtab-tokens"] == "original=1000, sent=400, budget=7168"
    assert shown["x-trimtab-edits"] == "truncated=0, cleared=1, summarized=0, dropped=1, squeezed=0"
    assert shown["x-trimtab-summary"] == "miss"
    assert shown["x-trimtab-compaction-tokens"] == "in=900, out=80"
    assert "x-trimtab-summary-messages" not in shown


def applied_edits(report: Report) -> list[dict[str, Any]]:
    (managed,) = report.fields(obeyed=True, explain=False).values()
    (found,) = managed.values()
    return found  # type: ignore[no-any-return]


def test_a_client_sees_how_many_earlier_messages_a_summary_stands_for() -> None:
    made, gathered = planned(SUMMARIZED), Gathered("a summary", "hit", messages=1)
    assert header(made, gathered)["x-trimtab-summary-messages"] == "1"
    comment = Report(made, edited(made), gathered).comment()
    assert msgspec.json.decode(comment.removeprefix(b": trimtab "))["summary_messages"] == 1
    applied = applied_edits(Report(made, edited(made), gathered))
    shown = {"messages": 1, "removed_input_tokens": 100, "summary": "hit", "summary_messages": 1}
    assert applied == [{"type": "trimtab_summarized", **shown}]


@pytest.mark.parametrize(("gathered", "summary"), [(NO_SUMMARY, None), (Gathered("text", "hit"), "hit")])
def test_the_comment_in_a_stream_is_one_line_of_numbers(gathered: Gathered, summary: str | None) -> None:
    made = planned(CLEARED)
    comment = Report(made, edited(made), gathered).comment()
    assert comment.startswith(b": trimtab {")
    assert comment.endswith(b"}\n\n")
    assert comment.count(b"\n") == 2
    shown = msgspec.json.decode(comment.removeprefix(b": trimtab "))
    assert shown["tokens"] == {"original": 1_000, "sent": 400, "budget": 7_168}
    assert shown["edits"] == {"cleared": 1}
    assert shown.get("summary") == summary
    assert b"text" not in comment


APPLIED: list[tuple[tuple[Edit, ...], list[dict[str, Any]]]] = [
    ((), []),
    ((CLEARED, INPUTS), [{"type": CLEAR_TOOL_USES, "cleared_tool_uses": 1, "cleared_input_tokens": 280}]),
    ((DROPPED,), [{"type": "trimtab_dropped", "messages": 1, "removed_input_tokens": 100}]),
]


@pytest.mark.parametrize(("edits", "applied"), APPLIED)
def test_applied_edits_speak_the_requests_vocabulary(edits: tuple[Edit, ...], applied: list[Any]) -> None:
    made = planned(*edits)
    assert applied_edits(Report(made, edited(made))) == applied


def test_no_report_holds_a_word_of_the_conversation() -> None:
    secret = "tungsten"
    policy = managed(Policy(), Raw(b'{"edits":[{"type":"clear_tool_uses_20250919","clear_tool_inputs":true}]}')).policy
    messages = agent_run(30)
    messages[5]["content"] = f"{secret} {prose(900)}"
    made = shaping(messages, policy=policy)
    report = Report(made, edited(made))
    shown = [
        repr(report.headers()),
        repr(report.comment()),
        repr(report.fields(obeyed=True, explain=True)),
        repr(explain(made, cached=False)),
    ]
    assert made.plan.edits
    assert not [text for text in shown if secret in text]


def explained(made: Shaping, gathered: Gathered = NO_SUMMARY, *, sent: bool = True) -> dict[str, Any]:
    (found,) = Report(made, edited(made), gathered, sent).fields(obeyed=False, explain=True).values()
    return found  # type: ignore[no-any-return]


def test_who_asks_is_told_which_messages_were_sent_and_what_each_stage_did() -> None:
    made = shaping(chat(60))
    shown, dropped = explained(made, Gathered("a summary", "miss", 900, 80)), edited(made)[0]
    sent = len(apply(made.request.messages, made.plan, "a summary"))
    assert shown["messages"] == {"received": 122, "sent": sent}
    assert shown["stages"] == [{"stage": "dropped", "messages": dropped.count, "tokens": dropped.tokens}]
    assert shown["own_tokens"] == {"input": 900, "output": 80}
    gone = {edit.index for edit in made.plan.edits}
    assert shown["first_kept"] == min(set(range(2, 122)) - gone)


def test_of_a_request_that_was_left_alone_everything_is_kept() -> None:
    shown = explained(shaping(chat(1)))
    assert shown["messages"] == {"received": 4, "sent": 4}
    assert (shown["first_kept"], shown["stages"], shown["own_tokens"]) == (None, [], {"input": 0, "output": 0})
    assert explained(shaping(chat(60)), sent=False)["messages"] == {"received": 122, "sent": 0}


def test_the_same_edits_are_summed_up_once() -> None:
    made = planned(CLEARED, CLEARED)
    of = msgspec.structs.replace(made, plan=msgspec.structs.replace(made.plan, edits=Edits(made.plan.edits)))
    assert edited(of) == edited(made)
    assert isinstance(of.plan.edits, Edits)
    assert of.plan.edits.sums
    assert edited(of) == edited(made)
