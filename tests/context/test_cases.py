"""Problems that users of other tools reported, each as the smallest conversation that shows it, named by the problem.

The last test sweeps all cases of `shared/cases` that hold a conversation, at many budgets.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.context.plans import planned, policy, staged, tokens
from tests.support.messages import assistant, calls, msg, prose, result, role_of, system, tool_loop, user
from tests.support.pairs import broken_pairs, starts_with_assistant
from trimtab.context.apply.apply import apply
from trimtab.context.policy import Policy, ShapingSettings
from trimtab.context.read.history import history
from trimtab.context.read.memo import Memo
from trimtab.context.read.views import view
from trimtab.context.texts import PLACEHOLDER

LARGE = 10**6


def sent(raws: Sequence[bytes], rules: Policy, budget: int) -> list[bytes]:
    return [bytes(raw) for raw in apply(raws, planned(raws, rules, budget))]


def bodies(raws: Sequence[bytes], field: str = "content") -> list[Any]:
    return [json.loads(raw).get(field) for raw in raws]


def at_every_budget(raws: list[bytes], rules: Policy | None = None) -> list[list[bytes]]:
    """What is sent at budgets from next to nothing to all."""
    whole = tokens(raws)
    return [sent(raws, rules or Policy(), max(1, whole * share // 20)) for share in range(1, 21)]


# -- pairs -------------------------------------------------------------------------------------------------------

PAIRS: dict[str, list[bytes]] = {
    "parallel results are never split": [
        user("do both"),
        calls("A", "B"),
        result("A", prose(900)),
        result("B", prose(900)),
        user("go on"),
    ],
    "parallel results out of order end with the last of them": [
        user("a"),
        calls("c1", "c2"),
        result("c2", prose(900)),
        result("c1", prose(900)),
        user("b"),
    ],
    "large arguments and a small result": [
        user("write"),
        calls("w", arguments=json.dumps({"content": prose(40_000)})),
        result("w"),
        assistant("done"),
        user("thanks"),
    ],
    "an id used in every turn": [
        *(m for k in range(4) for m in (user(str(k)), calls("call_0"), result("call_0", prose(600)), assistant())),
        user("3"),
    ],
}


@pytest.mark.parametrize("raws", PAIRS.values(), ids=PAIRS)
def test_pairs_stay_whole_at_every_budget(raws: list[bytes]) -> None:
    for out in at_every_budget(raws):
        assert broken_pairs(Memo().views(out)) == 0
        assert out[-1] == raws[-1]


def test_a_doubled_result_is_passed_on_and_never_made() -> None:
    raws = [user("x"), calls("t1", "t2"), result("t1", "one"), result("t2", "two"), result("t1", "one")]
    assert sent(raws, Policy(), tokens(raws)) == raws
    for out in at_every_budget([*raws, *tool_loop(3, 900)]):
        assert bodies(out, "tool_call_id").count("t1") in (0, 2)


def test_an_unanswered_call_is_passed_on_and_goes_with_its_turn() -> None:
    raws = [user("run"), calls("z1"), user("never mind, continue"), *tool_loop(4, 900)]
    assert sent(raws, Policy(), tokens(raws)) == raws
    assert all(broken_pairs(Memo().views(out)) <= 1 for out in at_every_budget(raws))


def test_ids_are_never_rewritten_nor_made() -> None:
    loop = [m for k in range(9) for m in (calls(f"a1B2c3D4{k}"), result(f"a1B2c3D4{k}", prose(900)))]
    ids = set(bodies(loop, "tool_call_id"))
    for out in at_every_budget([user("q"), *loop, user("n")]):
        assert set(bodies(out, "tool_call_id")) <= ids


def test_results_of_an_id_used_again_are_told_apart_by_position() -> None:
    raws = [
        user("1"),
        *(calls("call_0"), result("call_0", "first " + prose(900)), assistant("ok")),
        user("2"),
        *(calls("call_0"), result("call_0", "second"), assistant("ok")),
        user("3"),
    ]
    out = sent(raws, policy(keep_share=0, clear_batch=1, target=0.9), tokens(raws) - 1)
    assert bodies(out) == [*bodies(raws)[:2], PLACEHOLDER, *bodies(raws)[3:]]


# -- roles -------------------------------------------------------------------------------------------------------


def test_a_history_that_begins_with_a_greeting_is_not_mended() -> None:
    raws = [system("s"), assistant("Ahoy!"), user("hi"), assistant("…"), user("n")]
    assert sent(raws, Policy(), tokens(raws)) == raws


def test_a_greeting_may_go_and_nothing_is_put_in_its_place_but_the_note() -> None:
    raws = [system("s"), assistant("Ahoy!"), user("hi"), assistant(prose(900)), user("n")]
    for out in at_every_budget(raws):
        assert all(raw in raws or role_of(raw) == "system" or b"[Truncated]" in raw for raw in out)


def test_what_is_sent_begins_with_a_user_message_when_the_history_did() -> None:
    raws = [system(), *(m for k in range(6) for m in (user(f"{k} " + prose(300)), assistant(prose(300)))), user("?")]
    for share in (0, 0.1, 0.5, 1):
        for out in at_every_budget(raws, policy(pin_share=share)):
            assert not starts_with_assistant(Memo().views(out))


def test_roles_not_known_here_are_passed_on() -> None:
    raws = [msg("developer", "be brief"), msg("critic", "hm"), user("hi")]
    assert sent(raws, Policy(), LARGE) == raws
    assert sent(raws, Policy(), 1)[0] == raws[0]


def test_system_messages_in_the_middle_stay_where_they_are() -> None:
    raws = [system("main"), user("1"), assistant(prose(900)), system("now in German"), assistant(prose(900)), user("3")]
    for out in at_every_budget(raws):
        assert out.index(raws[3]) > 0
        assert out[0] == raws[0]


# -- contents and fields -----------------------------------------------------------------------------------------

ODD: dict[str, list[bytes]] = {
    "empty and null contents": [user("hi"), assistant(""), assistant(None), user("say ok")],
    "names": [user("hi", name="alice"), user("no", name="bob"), user("who?")],
    "no content at all": [b'{"role":"assistant"}', user("x")],
    "elements that are no messages": [b"null", b'{"role":"user","content":5}', b'{"content":"x"}', b'"str"'],
    "audio": [user([{"type": "input_audio", "input_audio": {"data": "UklG" * 20_000, "format": "wav"}}])],
    "files": [user([{"type": "file", "file": {"file_id": "file-x"}}])],
    "video": [user([{"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AAAA"}}])],
    "thinking": [assistant([{"type": "thinking", "thinking": "t", "signature": "s"}]), user("again")],
}


@pytest.mark.parametrize("raws", ODD.values(), ids=ODD)
def test_odd_contents_pass_as_they_came_and_are_counted(raws: list[bytes]) -> None:
    assert sent(raws, Policy(), LARGE) == raws
    assert all(view(raw).tokens > 4 or raw == b'{"role":"assistant"}' or b'""' in raw or b"null" in raw for raw in raws)
    for out in at_every_budget(raws):
        assert len(out) <= len(raws) + 1


def test_a_payload_is_not_text() -> None:
    audio = {"type": "input_audio", "input_audio": {"data": "UklGRiQAAABXQVZF" * 31_250, "format": "wav"}}
    assert view(user([{"type": "text", "text": "hear"}, audio])).tokens < 60_000


def test_tools_schemas_and_predictions_count() -> None:
    schema = json.dumps({"x": prose(20_000)}).encode()
    assert history([user("hi")], [schema], Memo()).tokens > 2_500


def test_a_name_stays_on_a_message_that_is_edited() -> None:
    raws = [user("a"), assistant(prose(9_000), name="bob"), user("b")]
    out = sent(raws, policy(max_message_chars=500), tokens(raws) - 1)
    assert json.loads(out[1])["name"] == "bob"


# -- clearing and the cache --------------------------------------------------------------------------------------


def steps(n: int, chars: int) -> list[list[bytes]]:
    return [[system(), user("Begin."), *tool_loop(k, chars)] for k in range(1, n + 1)]


def test_the_arguments_of_cleared_results_stay_visible() -> None:
    out = sent(steps(12, 1_200)[-1], policy(target=0.8), tokens(steps(12, 1_200)[-1]) - 1)
    cleared = [i for i, raw in enumerate(out) if PLACEHOLDER in str(json.loads(raw)["content"])]
    assert cleared
    assert all(b"read_file" in out[i - 1] and b"path" in out[i - 1] for i in cleared)


def test_a_cleared_result_is_never_empty_and_always_the_same() -> None:
    seen = {json.loads(raw)["content"] for raws in steps(20, 1_200) for raw in sent(raws, Policy(), 3_000)[3:]}
    assert {text for text in seen if text and "cleared" in text} == {PLACEHOLDER}


def test_clearing_does_not_roll_along_with_every_step() -> None:
    """Twenty steps over the threshold: the bodies extend one another but for few breaks."""
    breaks, before = 0, [b""]
    for raws in steps(40, 1_200):
        now = sent(raws, Policy(), 4_000)
        breaks += now[: len(before)] != before
        before = now
    assert breaks <= 11


def test_a_pure_and_monotone_function_of_the_history() -> None:
    changed: set[int] = set()
    for raws in steps(40, 1_200):
        now = {e.index for e in planned(raws, Policy(), 4_000).edits}
        assert changed <= now
        changed = now


# -- one estimate ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.3, 0.5, 0.9])
def test_what_is_decided_with_is_what_is_checked_with(share: float) -> None:
    raws = [system(), user("Begin."), *tool_loop(20, 700), user("And?")]
    budget = int(tokens(raws) * share)
    found = planned(raws, Policy(), budget)
    assert found.fits
    assert tokens([bytes(m) for m in apply(raws, found)]) == found.sent <= budget


# -- size --------------------------------------------------------------------------------------------------------

MANY: dict[str, Callable[[], list[bytes]]] = {
    "users": lambda: [user("a")] * 100_000,
    "a chat": lambda: [user("a"), assistant("b")] * 50_000,
    "tool cycles": lambda: [user("a"), *[calls("c"), result("c")] * 50_000],
}


@pytest.mark.parametrize("made", MANY.values(), ids=MANY)
def test_a_hundred_thousand_tiny_messages(made: Callable[[], list[bytes]]) -> None:
    raws = made()
    found = planned(raws, Policy(), 20_000)
    assert found.fits
    assert len(apply(raws, found)) < len(raws)


# -- all that were reported --------------------------------------------------------------------------------------


def reported(shared: Path) -> list[tuple[str, list[bytes], list[bytes]]]:
    found = []
    for line in (shared / "cases" / "bug_cases.jsonl").read_text().splitlines():
        case = json.loads(line)
        request = case.get("repro", {}).get("request", {}) if isinstance(case.get("repro"), dict) else {}
        messages = request.get("messages")
        if isinstance(messages, list):
            extras = [json.dumps(request[k]).encode() for k in ("tools", "response_format") if k in request]
            found.append((case["id"], [json.dumps(m).encode() for m in messages], extras))
    return found


def test_every_reported_conversation_keeps_the_rules(shared: Path) -> None:
    cases = reported(shared)
    assert len(cases) > 20
    for name, raws, extras in cases:
        before = broken_pairs(Memo().views(raws))
        for budget in (1, 30, 100, 1_000, LARGE):
            for rules in (Policy(), Policy(ShapingSettings(keep_recent=0, target=0.1), compaction=True)):
                found = planned(raws, rules, budget, extras)
                out = [bytes(m) for m in apply(raws, found, "A summary.")]
                assert broken_pairs(Memo().views(out)) <= before, name
                assert (
                    not found.fits
                    or [r for r in raws if role_of(r) == "user"][-1:] == ([r for r in out if role_of(r) == "user"][-1:])
                ), name
                assert budget != LARGE or out == raws, name


def test_nothing_is_staged_for_what_fits(shared: Path) -> None:
    assert all(staged(planned(raws, Policy(), LARGE, extras)) == {} for _, raws, extras in reported(shared))
