"""Each claim of docs/security.md names a test, and that test exists."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
PAGE = (TESTS.parent / "docs" / "security.md").read_text()
NAMED = sorted(set(re.findall(r"`((?:tests/[\w/]+/)?test_\w+\.py)(?:::(test_\w+)(…?))?`", PAGE)))


def test_every_test_that_the_page_names_exists() -> None:
    assert len(NAMED) > 40
    for name, test, more in NAMED:
        found = [TESTS.parent / name] if "/" in name else [*TESTS.rglob(name)]
        texts = [path.read_text() for path in found if path.is_file()]
        assert texts, name
        rest = r"\w*" if more else ""
        assert not test or any(re.search(rf"def {test}{rest}\(", text) for text in texts), (name, test)


def test_every_threat_has_a_test() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| **")]
    assert len(rows) > 25
    assert not [row for row in rows if "`test" not in row.rsplit("|", 2)[1]]
