"""What was saved is stated cautiously, and as a counter it never falls."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from trimtab.telemetry.savings import Ledger, gross_usd, run_usd

from .exchanges import PASSED, REFUSED, RUN, SHAPED


@pytest.mark.parametrize(
    ("exchange", "serves_cache", "usd"),
    [
        (SHAPED, False, 71_000 * 3.0 / 1e6),
        (SHAPED, True, 71_000 * 0.3 / 1e6),
        (PASSED, False, 0.0),
        (REFUSED, False, 0.0),
        (replace(SHAPED, prices=None), False, 0.0),
        (replace(SHAPED, outcome="observed"), False, 0.0),
    ],
    ids=["no cache seen", "cache seen", "nothing taken out", "not sent", "no price", "only observed"],
)
def test_gross(exchange, serves_cache, usd) -> None:
    assert gross_usd(exchange, serves_cache) == pytest.approx(usd)


def test_a_run_costs_what_it_read_and_wrote() -> None:
    assert run_usd(RUN) == pytest.approx(0.03 + 0.015)
    assert run_usd(replace(RUN, prices=None)) == 0.0


def test_a_summary_is_paid_before_it_saves() -> None:
    ledger = Ledger()
    assert [ledger.add(usd) for usd in (-0.5, 0.2, 0.4, 0.1)] == pytest.approx([0, 0, 0.1, 0.1])


@given(st.lists(st.floats(-10, 10)))
def test_the_net_total_is_the_highest_balance_there_was(bookings: list[float]) -> None:
    ledger = Ledger()
    rises = [ledger.add(usd) for usd in bookings]
    highest = max((sum(bookings[:n]) for n in range(len(bookings) + 1)), default=0.0)
    assert all(rise >= 0 for rise in rises)
    assert sum(rises) == pytest.approx(highest, abs=1e-9)
