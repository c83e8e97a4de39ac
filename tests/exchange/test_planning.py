"""A plan is explained without a call, and an error says why there is none."""

from __future__ import annotations

import pytest

from tests.exchange.requests import Given
from tests.exchange.started import PlanFails, body, started
from tests.support.conversations import agent_run, chat
from trimtab.errors import InvalidRequest, UpstreamError
from trimtab.exchange.planning import Planning

pytestmark = pytest.mark.anyio


async def test_a_plan_is_explained_without_a_call() -> None:
    async with started(Planning) as (asked, notes, upstream, _):
        plan = await asked.explained(body(agent_run(30)))
    assert plan.fits
    assert {edit.stage for edit in plan.edits} == {"cleared"}
    assert (notes.outcome, notes.status) == ("planned", 200)
    assert upstream.requests == []


async def test_a_plan_that_fails_is_an_error() -> None:
    async with started(Planning, kind=PlanFails) as (asked, _, _upstream, _log):
        with pytest.raises(UpstreamError, match="could not be planned"):
            await asked.explained(body(chat(1)))


async def test_a_body_that_cannot_be_read_cannot_be_planned() -> None:
    async with started(Planning) as (asked, _, _upstream, _log):
        with pytest.raises(InvalidRequest, match="cannot be planned"):
            await asked.explained(Given(b'{"messages": 5}'))
