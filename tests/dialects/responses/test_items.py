"""Items of the Responses API: what is read of one, what is written, and the laws of what is sent."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dialects.items import ENCRYPTED, call, complaints, cycle, encoded, message, output, reasoning
from tests.support.messages import prose
from trimtab.context.apply.apply import apply
from trimtab.context.edits import Plan
from trimtab.context.plan.plan import plan
from trimtab.context.policy import Policy, ShapingSettings
from trimtab.context.read.history import history
from trimtab.context.read.memo import Memo
from trimtab.context.read.structure import boundaries, structure
from trimtab.context.texts import NOTE, PLACEHOLDER
from trimtab.dialects.responses import RESPONSES

FORMAT = RESPONSES.format
TASK = [message("You code.", "developer"), message("<environment_context>"), message("Read every file.")]


def planned(items: list[bytes], budget: int, **rules: Any) -> tuple[Plan, list[bytes]]:
    memo = Memo(view=FORMAT.view, digest=FORMAT.digest)
    found = plan(history(items, (), memo), Policy(ShapingSettings(**rules)), budget, memo, FORMAT)
    return found, [bytes(raw) for raw in apply(items, found, format=FORMAT)]


def size(items: list[bytes]) -> int:
    return history(items, (), Memo(view=FORMAT.view, digest=FORMAT.digest)).tokens


VIEWS: list[tuple[bytes, str, bool, str | None]] = [
    # item, role, follows, answers
    (message("hi"), "user", False, None),
    (encoded(role="user", content="hi"), "user", False, None),
    (message("hi", "developer"), "developer", False, None),
    (message("hi", "assistant"), "assistant", True, None),
    (reasoning(1), "assistant", True, None),
    (call(1), "assistant", True, None),
    (call(1, kind="custom_tool_call"), "assistant", True, None),
    (encoded(type="web_search_call", id="ws_1", status="completed"), "assistant", True, None),
    (encoded(type="something_new", id="x"), "assistant", True, None),
    (output(1, "text"), "tool", False, "call_1_0"),
    (output(1, [{"type": "input_text", "text": "x"}], kind="custom_tool_call"), "tool", False, "call_1_0"),
    (encoded(type="computer_call_output", call_id="c", output={"type": "computer_screenshot"}), "tool", False, "c"),
    (encoded(type="mcp_approval_response", approval_request_id="a", approve=True), "tool", False, "a"),
    (encoded(type="function_call_output", output="injected"), "context", True, None),
    (encoded(type="compaction", encrypted_content="gAAA"), "system", False, None),
    (encoded(type="compaction_trigger"), "system", False, None),
    (encoded(type="additional_tools", role="developer", tools=[]), "system", False, None),
    (b'"hi"', "user", False, None),
    (b"7", "assistant", True, None),
]


@pytest.mark.parametrize(("raw", "role", "follows", "answers"), VIEWS)
def test_what_an_item_is_to_the_planner(raw: bytes, role: str, follows: bool, answers: str | None) -> None:
    found = FORMAT.view(raw)
    assert (found.role, found.follows, found.answers) == (role, follows, answers)
    assert found.tokens > 0


def test_encrypted_reasoning_counts_by_its_length() -> None:
    assert FORMAT.view(reasoning(1)).tokens == (len(ENCRYPTED) * 3 // 4 - 650) // 4 + 4


def test_an_image_in_an_output_is_not_text() -> None:
    image = [{"type": "input_image", "image_url": "data:image/png;base64," + "A" * 400_000}]
    assert FORMAT.view(output(1, image)).tokens < 2_000


@given(st.binary(max_size=60) | st.recursive(st.none() | st.text(), lambda x: st.lists(x)).map(msgspec.json.encode))
def test_any_bytes_have_a_view(raw: bytes) -> None:
    assert FORMAT.view(raw).tokens > 0


def test_a_run_and_its_outputs_are_one_unit() -> None:
    items = [*TASK, *cycle(1, "x", 2), *cycle(2, "y")]
    views = [FORMAT.view(raw) for raw in items]
    found = structure(items, views)
    assert [(unit.start, unit.stop) for unit in found.units] == [(0, 1), (1, 2), (2, 3), (3, 8), (8, 11)]
    assert boundaries(views) == [3, 8, 11]
    assert found.task == [1, 2]
    assert found.tool_of(6) == "read"


# -- writing -----------------------------------------------------------------------------------------------------


def after(raw: bytes, stage: Any, amount: int = 0) -> Any:
    return msgspec.json.decode(FORMAT.rewrite(raw, stage, amount))


def test_clearing_keeps_everything_but_the_output() -> None:
    raw = output(1, [{"type": "input_text", "text": "x" * 500}])
    assert after(raw, "cleared") == {**msgspec.json.decode(raw), "output": PLACEHOLDER}


def test_texts_of_an_output_are_cut() -> None:
    assert len(after(output(1, "x" * 900), "truncated", 100)["output"]) <= 100
    parts = [{"type": "input_text", "text": "x" * 900}, {"type": "input_image", "image_url": "https://a.b/c"}]
    squeezed = after(output(1, parts), "squeezed", 300)["output"]
    assert len(squeezed[0]["text"]) <= 300
    assert squeezed[1] == parts[1]


def test_arguments_stay_json_and_free_text_stays_text() -> None:
    arguments = msgspec.json.encode({"path": "a", "text": "y" * 900}).decode()
    assert msgspec.json.decode(after(call(1, text=arguments), "squeezed", 300)["arguments"])["path"] == "a"
    assert after(call(1, text=arguments), "inputs_cleared")["arguments"] == "{}"
    assert len(after(call(1, kind="custom_tool_call", text="z" * 900), "squeezed", 300)["input"]) <= 300


def test_payloads_become_words() -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64," + "A" * 4_000}
    assert after(output(1, [image]), "lightened")["output"][0]["type"] == "input_text"


def test_texts_of_our_own() -> None:
    note = msgspec.json.decode(FORMAT.message("system", "Note."))
    assert note == {"type": "message", "role": "system", "content": [{"type": "input_text", "text": "Note."}]}
    joined = msgspec.json.decode(FORMAT.join_text(message("hi"), "Note.", before=False))
    assert [part["text"] for part in joined["content"]] == ["hi", "Note."]
    assert msgspec.json.decode(FORMAT.join_text(encoded(role="user", content="hi"), "Note.", before=True)) == {
        "role": "user",
        "content": "Note.\n\nhi",
    }
    for raw in (message("You code.", "developer"), encoded(role="system", content="You code.")):
        assert b"older tool results" in FORMAT.announce(raw)
    assert FORMAT.unpin(encoded(role="user", content="x", pinned=True)) == encoded(role="user", content="x")


# -- what is sent ------------------------------------------------------------------------------------------------


def test_old_outputs_are_cleared_first() -> None:
    items = [*TASK, *[raw for n in range(8) for raw in cycle(n, prose(2_000))]]
    found, sent = planned(items, size(items) * 3 // 4)
    assert {edit.stage for edit in found.edits} == {"cleared"}
    assert complaints(sent) == []


def test_the_note_stands_behind_the_task() -> None:
    items = [*TASK, *[raw for n in range(40) for raw in cycle(n, prose(300), 2)], message("And?")]
    _, sent = planned(items, size(items) // 4)
    assert sent[:3] == TASK
    assert NOTE.encode() in sent[3]
    assert complaints(sent) == []


def test_the_trigger_of_a_compaction_stays_last() -> None:
    trigger = encoded(type="compaction_trigger")
    items = [*TASK, *[raw for n in range(40) for raw in cycle(n, prose(300))], trigger]
    found, sent = planned(items, size(items) // 4)
    assert found.fits
    assert sent[-1] == trigger


KINDS = st.sampled_from(
    ["cycle", "parallel", "custom", "user", "answer", "injected", "unknown", "search", "compaction"]
)


@st.composite
def conversations(draw: st.DrawFn) -> list[bytes]:
    items = list(TASK)
    for n, kind in enumerate(draw(st.lists(KINDS, max_size=40))):
        text = prose(draw(st.sampled_from([5, 300, 3_000])))
        if kind in ("cycle", "parallel", "custom"):
            tool = "custom_tool_call" if kind == "custom" else "function_call"
            items += cycle(n, text, 3 if kind == "parallel" else 1, tool)
        elif kind == "answer":
            items += [reasoning(n), message(text, "assistant")]
        elif kind == "injected":
            items.append(encoded(type="function_call_output", output=text))
        elif kind == "unknown":
            items.append(encoded(type="something_new", id=f"new_{n}", text=text))
        elif kind == "search":
            items += [encoded(type="web_search_call", id=f"ws_{n}"), message(text, "assistant")]
        elif kind == "compaction":
            items.append(encoded(type="compaction", encrypted_content="gAAA" * 10))
        else:
            items.append(message(text))
    return items


@given(conversations(), st.floats(0.05, 1.1))
def test_what_is_sent_obeys_the_grammar(items: list[bytes], share: float) -> None:
    _, sent = planned(items, max(1, int(size(items) * share)))
    assert complaints(sent) == []
    kept = iter(items)
    unknown = [raw for raw in sent if b'"something_new"' in raw or b'"compaction"' in raw]
    assert all(raw in kept for raw in unknown), "in their order, with their bytes"
    assert all(raw in sent for raw in items if b'"compaction"' in raw)


@given(conversations(), st.floats(0.2, 0.9))
def test_what_was_sent_is_sent_again_as_the_conversation_grows(items: list[bytes], share: float) -> None:
    budget = max(1, int(size(items) * share))
    for end in boundaries([FORMAT.view(raw) for raw in items])[-3:]:
        found, sent = planned(items[:end], budget)
        again = planned(items[:end], budget)
        assert again == (found, sent)


def test_a_request_that_fits_keeps_its_bytes() -> None:
    raw = b'{"model":"m","input":[{"role":"user","content":"a\\u00e9"}],"n":1e3}'
    request = RESPONSES.decode(raw)
    assert RESPONSES.render(request, request.messages, {}) == raw


def test_for_a_summary_an_item_reads_like_a_message() -> None:
    read = [msgspec.json.decode(RESPONSES.format.as_chat(raw)) for raw in (*cycle(1, "found"), message("hi"), b'"hi"')]
    assert [found["role"] for found in read] == ["assistant", "assistant", "tool", "user", "user"]
    assert read[2]["tool_call_id"] == read[1]["tool_calls"][0]["id"]
