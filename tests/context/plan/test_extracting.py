"""What stands in the gap beside the note."""

from __future__ import annotations

from tests.context.plans import planned, policy
from tests.support.messages import calls, prose, result, system, user
from trimtab.context.apply.apply import apply
from trimtab.context.texts import EXTRACT, NOTE, SUMMARY_PREFIX

RAWS = [
    system(),
    user("Mend src/main_a.py."),
    *(
        m
        for k in range(20)
        for m in (
            calls(f"c{k}", arguments=f'{{"path": "src/mod_{k}.py"}}'),
            result(f"c{k}", f"{prose(700)} id_{k} {prose(99)}"),
        )
    ),
]
WITH = policy(extract_share=0.3)


def gap_text(summary: str | None = None) -> str:
    found = planned(RAWS, WITH, 1_200)
    assert found.gap is not None
    return bytes(apply(RAWS, found, summary)[found.gap.index]).decode()


def test_the_extract_stands_below_the_note() -> None:
    text = gap_text()
    assert NOTE in text
    assert text.index(NOTE) < text.index(EXTRACT) < text.index("src/mod_")


def test_the_extract_stands_below_the_summary() -> None:
    text = gap_text("All is well.")
    assert SUMMARY_PREFIX in text
    assert NOTE not in text
    assert text.index("All is well.") < text.index(EXTRACT)


def test_without_a_share_there_is_none() -> None:
    found = planned(RAWS, policy(extract_share=0.0), 1_200)
    assert found.gap is not None
    assert found.gap.extract == ()
    assert found.spare == 0
