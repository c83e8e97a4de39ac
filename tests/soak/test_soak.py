"""The soak itself runs, for seconds, and finds nothing."""

from __future__ import annotations

import pytest

from tests.soak.kinds import KINDS
from tests.soak.soak import report, soak

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(240)]


async def test_a_short_soak_finds_nothing() -> None:
    found = await soak(seconds=30, rate=15, idle_s=35)
    assert found.problems == [], report(found)
    assert set(found.torments) == {"frozen", "killed", "emptied", "disconnected"}
    assert len(found.ledger.asked) > len(KINDS) // 2
