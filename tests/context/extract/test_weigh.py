"""The order in which names are kept."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.messages import calls, prose, result, system, user
from trimtab.context.extract.parts import Opened
from trimtab.context.extract.weigh import Text, ranked


def names(texts: list[Text], stays: tuple[str, ...] = ()) -> list[str]:
    return [texts[name.text].text[name.start : name.stop] for name in ranked(texts, stays)]


def of(*texts: tuple[str, str]) -> list[Text]:
    return [Text(i, 0, kind, text) for i, (kind, text) in enumerate(texts)]  # type: ignore[arg-type]


def test_names_of_calls_come_before_those_that_were_written_and_those_before_others() -> None:
    texts = of(("result", "see job_1"), ("assistant", "see job_2"), ("call", "id: job_3"), ("result", "see job_4"))
    assert names(texts)[0] == "job_3"
    assert names(texts)[1] == "job_2"


def test_late_names_come_before_old_ones() -> None:
    texts = of(*[("result", f"see job_{k:03}") for k in range(90)])
    assert names(texts) == [f"job_{k:03}" for k in reversed(range(90))]


def test_a_name_is_taken_from_the_last_text_that_has_it() -> None:
    texts = of(("result", "job_1 began"), ("result", "job_1 ended"), ("user", "thanks"))
    assert [(name.text, name.start, name.stop) for name in ranked(texts, ())] == [(1, 0, 5)]


def test_names_that_stay_and_plain_words_are_left_out() -> None:
    texts = of(("result", "the job_1 and the job_2."))
    assert names(texts, ("about job_2, at last",)) == ["job_1"]


def test_close_names_come_before_lone_ones() -> None:
    texts = of(("result", f"lone_a {prose(200)} pair_a pair_b {prose(200)}"))
    assert names(texts)[2] == "lone_a"


def run(names: list[str]) -> list[bytes]:
    raws = [system(), user(f"Mend {names[0]}.")]
    for k, name in enumerate(names):
        raws.append(calls(f"c{k}", arguments=f'{{"path": "{name}"}}'))
        raws.append(result(f"c{k}", f"{prose(60)} {name} {prose(90)} {names[k // 2]}"))
    return raws


def places(raws: list[bytes]) -> list[tuple[int, int, int]]:
    opened = Opened(raws)
    texts = [Text(i, n, p.kind, p.text) for i in range(len(raws)) for n, p in enumerate(opened.parts(i)) if p.text]
    return [(name.text, name.start, name.stop) for name in ranked(texts, ())]


def test_other_names_of_the_same_form_change_nothing() -> None:
    one = places(run([f"src/mod_{k}.py" for k in range(10, 40)]))
    other = places(run([f"lib/fun_{97 - k}.rs" for k in range(10, 40)]))
    assert one == other


_CHILD = """
from trimtab.context.extract.weigh import Text, ranked
texts = [Text(i, 0, "result", " ".join(f"id_{i * k % 97}" for k in range(40))) for i in range(20)]
print([(n.text, n.start, n.stop, n.weight) for n in ranked(texts, ["id_13 id_14"])])
"""


def test_two_processes_give_the_same_order() -> None:
    found = [
        subprocess.run(
            [sys.executable, "-c", _CHILD],
            cwd=Path(__file__).parents[3],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert found[0] == found[1]
    assert found[0].count(b"(") > 20
