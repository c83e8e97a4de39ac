"""Each deployment check as a test, skipped where its tool is not installed. Those of the chart start Helm some
thirty times, so they are slow.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.deploy import chart, files
from tests.deploy.tools import Missing

_CHECKS = [pytest.param(check, id=check.__name__) for check in files.CHECKS] + [
    pytest.param(check, id=check.__name__, marks=pytest.mark.slow) for check in chart.CHECKS
]


@pytest.mark.parametrize("check", _CHECKS)
def test_deployment(check: Callable[[], str]) -> None:
    try:
        assert check()
    except Missing as tool:
        pytest.skip(str(tool))
