"""Each deployment check as a test, skipped where its tool is not installed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.deploy import chart, files
from tests.deploy.tools import Missing


@pytest.mark.parametrize("check", [*chart.CHECKS, *files.CHECKS], ids=lambda check: check.__name__)
def test_deployment(check: Callable[[], str]) -> None:
    try:
        assert check()
    except Missing as tool:
        pytest.skip(str(tool))
