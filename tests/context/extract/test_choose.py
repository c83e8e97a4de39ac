"""Which excerpts are kept: bounds, order, and the laws an extract must keep."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.context.histories import histories
from tests.context.plans import planned, policy, tokens
from tests.support.messages import assistant, calls, prose, result, system, user
from trimtab.context.apply.apply import apply
from trimtab.context.edits import Excerpt
from trimtab.context.extract.choose import choose
from trimtab.context.extract.parts import Opened
from trimtab.context.extract.render import render
from trimtab.context.read.memo import Memo
from trimtab.context.read.structure import structure

WITH = policy(extract_share=0.35, result_extract=80)


def extract(raws: Sequence[bytes], room: int, shown: Sequence[int] = ()) -> tuple[Sequence[Excerpt], str, int]:
    memo = Memo()
    removed = [i for i in range(len(raws)) if i not in shown]
    excerpts, size = choose(structure(raws, memo.views(raws)), removed, shown, room, memo)
    return excerpts, render(Opened(raws), excerpts), size


def run(cycles: int) -> list[bytes]:
    """An agent's run in which every result has names of its own and one name comes back."""
    messages = [system(), user("Mend the build, and never touch vendor/lib_a.")]
    for k in range(cycles):
        messages.append(calls(f"c{k}", arguments=f'{{"path": "src/mod_{k}.py"}}'))
        messages.append(
            result(f"c{k}", f"log_{k}: {prose(200)} def fn_{k}(order_{k}): {prose(200)} see shared_name {prose(90)}")
        )
    return messages


@settings(max_examples=60, deadline=None)
@given(histories, st.integers(20, 2_000))
def test_it_never_exceeds_its_tokens(raws: list[bytes], room: int) -> None:
    excerpts, text, size = extract(raws, room)
    assert size <= room
    assert (size > 0) == bool(text) == bool(excerpts)


@settings(max_examples=60, deadline=None)
@given(histories, st.integers(20, 2_000))
def test_all_of_it_stands_in_the_removed_messages(raws: list[bytes], room: int) -> None:
    excerpts, _, _ = extract(raws, room)
    assert list(excerpts) == sorted(excerpts, key=lambda e: (e.index, e.part, e.start))
    assert all(0 <= e.start < e.stop for e in excerpts)


def test_it_is_the_same_with_and_without_a_memory_of_other_conversations() -> None:
    memo = Memo()
    other = [user("secret_token_99 in src/other.py"), assistant("kept_elsewhere_1")]
    choose(structure(other, memo.views(other)), [0, 1], [], 500, memo)
    raws = run(6)
    kept = choose(structure(raws, memo.views(raws)), range(len(raws)), [], 500, memo)
    assert kept == extract(raws, 500)[0:3:2]
    assert "secret_token_99" not in render(Opened(raws), kept[0])


def test_users_words_and_called_names_are_kept_first() -> None:
    _, text, _ = extract(run(30), 260)
    assert "never touch vendor/lib_a" in text
    assert text.count("src/mod_") > text.count("order_")


def test_names_that_stay_in_sight_are_left_out() -> None:
    raws = [*run(3), assistant("fn_1 and order_1 are next")]
    _, text, _ = extract(raws, 600, shown=[len(raws) - 1])
    assert "fn_2" in text
    assert "order_1" not in text


def test_a_name_stands_among_its_words() -> None:
    _, text, _ = extract(run(2), 600)
    assert "def fn_1(order_1): the quick" in text


def sent(raws: Sequence[bytes], budget: int) -> list[bytes]:
    return [bytes(raw) for raw in apply(raws, planned(raws, WITH, budget))]


def test_it_changes_only_when_the_frontier_moves() -> None:
    """And it does what the history did before: no clock, no order of requests, no other conversation."""
    raws, budget = run(60), 1_500
    moves, before = 0, None
    for end in range(4, len(raws) + 1, 2):
        found = planned(raws[:end], WITH, budget)
        gone = [e.index for e in found.edits if e.stage == "dropped"]
        kept = found.gap.extract if found.gap else ()
        if before is not None and gone == before[0]:
            assert kept == before[1]
        moves += before is not None and gone != before[0]
        before = (gone, kept)
        assert found.sent == tokens(sent(raws[:end], budget)) <= budget
    assert moves > 3
    assert before is not None
    assert before[1]


def test_a_cleared_result_keeps_a_short_extract() -> None:
    raws = run(12)
    found = planned(raws, WITH, tokens(raws) - 100)
    first = next(e for e in found.edits if e.stage == "cleared")
    assert found.gap is None
    assert b"log_0: the quick brown fox" in bytes(apply(raws, found)[first.index])
