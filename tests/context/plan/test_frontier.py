"""What stays when the frontier passes, and when it goes after all."""

from __future__ import annotations

from tests.context.plans import planned, policy, staged, tokens, walked
from tests.support.messages import assistant, calls, msg, prose, result, system, tool_loop, user
from trimtab.context.plan.drop import drop


def turn(k: int, chars: int = 400) -> list[bytes]:
    return [user(f"Question {k}? {prose(chars)}"), assistant(f"Answer {k}. {prose(chars)}")]


def test_the_question_of_a_turn_stays_while_a_later_part_of_its_turn_does() -> None:
    raws = [user("Task."), assistant(), user("Work."), *tool_loop(12, 900), user("And?")]
    state = walked(raws, tokens(raws) - 1, policy(target=0.8, pin_share=0.01))
    drop(state)
    assert not state.gone[2]
    assert state.gone[3]
    assert not state.gone[26]


def test_pinned_messages_inside_what_goes_stay_in_order() -> None:
    rule = assistant("Rule.", pinned=True)
    raws = [user("Task."), assistant(), *turn(1), rule, *turn(2), *turn(3), user("And?")]
    found = planned(raws, policy(keep_recent=1, target=0.2), tokens(raws) // 2)
    gone = staged(found)["dropped"]
    assert 0 not in gone
    assert 4 not in gone
    assert 2 not in gone, "the question of the pinned answer's turn"
    assert {1, 3, 5, 6} <= set(gone)


def test_what_is_no_longer_pinned_goes_before_what_is_newer() -> None:
    """A remark made while tools ran stays until its run has ended."""
    loop = [user("Task."), *tool_loop(6, 900), user("Also this."), *tool_loop(6, 900, 6)]
    budget = tokens(loop) * 2 // 3
    rules = policy(keep_recent=2, exclude_tools=("read_file",), target=0.5)
    assert 13 not in staged(planned(loop, rules, budget))["dropped"]
    later = [*loop, assistant(), user("Next."), *tool_loop(6, 900, 12)]
    assert 13 in staged(planned(later, rules, budget))["dropped"]


def test_of_a_turn_with_a_pinned_answer_the_question_goes_last() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.invalid/a.png"}}
    raws = [user([image], pinned=True), assistant("Rule.", pinned=True), user("And?")]
    found = planned(raws, policy(keep_recent=1, pin_share=0.75, max_messages=1), tokens(raws) // 3)
    assert staged(found)["dropped"] == [0, 1]


def test_pinned_calls_keep_their_late_results() -> None:
    raws = [user("Task."), calls("a", pinned=True), user("Wait."), assistant(prose(900)), result("a"), *turn(1), user()]
    found = planned(raws, policy(keep_recent=1, target=0), tokens(raws) - 1)
    gone = staged(found)["dropped"]
    assert 3 in gone
    assert not {1, 4} & set(gone)


def reminded(k: int) -> list[bytes]:
    return [user(f"Question {k}?"), system(f"Reminder {k}. {prose(600)}"), assistant(f"Answer {k}.")]


def test_a_reminder_goes_with_its_turn_and_the_newest_stays() -> None:
    raws = [system("Rules."), *(m for k in range(12) for m in reminded(k)), user("And?")]
    found = planned(raws, policy(keep_recent=2), tokens(raws) // 3)
    gone = set(staged(found)["dropped"])
    kept = {k for k in range(12) if 3 * k + 2 not in gone}
    assert found.fits
    assert {0, 11} <= kept, "before the first answer it belongs to the task"
    assert kept <= {k for k in range(12) if 3 * k + 1 not in gone}
    assert len(gone) > 20


def test_in_one_long_turn_reminders_go_with_the_cycles_around_them() -> None:
    loop = tool_loop(20, 900)
    steps = [[*loop[2 * k : 2 * k + 2], msg("developer", f"Step {k}. {prose(500)}")] for k in range(20)]
    raws = [system("Rules."), user("Task."), *(m for step in steps for m in step)]
    rules = policy(keep_recent=2, exclude_tools=("read_file",))
    gone = set(staged(planned(raws, rules, tokens(raws) // 4))["dropped"])
    assert 1 not in gone
    assert len(raws) - 1 not in gone
    cycles = [3 * k + 2 for k in range(20) if 3 * k + 2 in gone]
    assert {i + 2 for i in cycles[:-1]} == {i for i in gone if i % 3 == 1}, "the frontier stands before the last one"


def test_a_pinned_reminder_goes_at_once_when_a_newer_one_has_come() -> None:
    first = [user("Task."), *tool_loop(6, 900), system("Now in English."), *tool_loop(6, 900, 6)]
    rules = policy(keep_recent=2, exclude_tools=("read_file",))
    budget = tokens(first) // 2
    assert 13 not in staged(planned(first, rules, budget))["dropped"]
    later = [*first, system("Now in French."), *tool_loop(6, 900, 12)]
    assert 13 in staged(planned(later, rules, budget))["dropped"]
