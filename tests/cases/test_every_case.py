"""Every case is tried: each id stands in the table of one family, and what is not as its report expected says so."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

from tests.cases.case import ALL

HERE = Path(__file__).parent
FAMILIES = {
    path.stem.removeprefix("test_"): importlib.import_module(f"tests.cases.{path.stem}").CASES
    for path in sorted(HERE.glob("test_*.py"))
    if path.stem != "test_every_case"
}
PAGE = HERE.parents[1] / "docs" / "robustness.md"


def test_each_case_stands_in_one_family() -> None:
    assert len(ALL) == 133
    assert sorted(id for cases in FAMILIES.values() for id in cases) == sorted(ALL)


def test_the_page_counts_them_as_they_are() -> None:
    told = dict(re.findall(r"^\| ([a-z ]+) \| (\d+) \|", PAGE.read_text(), re.MULTILINE))
    assert told == {name.replace("_", " "): str(len(cases)) for name, cases in FAMILIES.items()}
