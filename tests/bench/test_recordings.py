"""Some recordings in every dialect, through the running proxy: nothing refused, nothing broken, the same kept."""

from __future__ import annotations

import pytest

from tests.bench.recordings import apart, arguments, replayed

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(400)]


async def test_a_recorded_run_is_served_alike_in_every_dialect(shared: object) -> None:
    scores = await replayed(arguments("--only", "openhands_mswe_0", "--steps", "9"))
    for score in scores.values():
        assert score.over > 1
        assert (score.refused, score.invalid, score.lost) == (0, 0, 0)
        assert score.identical == score.fits > 0
    assert apart(scores) < 0.02


async def test_a_recorded_run_keeps_thinking_only_where_it_is_valid(shared: object) -> None:
    scores = await replayed(arguments("--only", "openhands_mswe_0", "--steps", "16", "--thinks"))
    for score in scores.values():
        assert score.over > 1
        assert (score.refused, score.invalid, score.lost, score.unbound) == (0, 0, 0, 0)
