"""Each deployment check as a test, skipped where its tool is not installed. Those of the chart start Helm some
thirty times, so they are slow.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from helm import schema
from tests.deploy import chart, files
from tests.deploy.tools import ROOT, Missing

_CHECKS = [pytest.param(check, id=check.__name__) for check in files.CHECKS] + [
    pytest.param(check, id=check.__name__, marks=pytest.mark.slow) for check in chart.CHECKS
]


def test_the_schema_of_the_charts_values_is_written_again_with_the_settings() -> None:
    assert (ROOT / "helm" / "values.schema.json").read_text() == schema.text(), "run: python -m helm.schema"


@pytest.mark.parametrize("check", _CHECKS)
def test_deployment(check: Callable[[], str]) -> None:
    try:
        assert check()
    except Missing as tool:
        pytest.skip(str(tool))
