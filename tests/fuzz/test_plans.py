"""Bytes that once were a body, in every dialect: what can be read can be planned for a window of a few tokens, and what
is made of it is JSON.

More of them: TRIMTAB_FUZZ=100000 python -m pytest tests/fuzz/test_plans.py; another beginning: TRIMTAB_FUZZ_SEED=2.
"""

from __future__ import annotations

import contextlib
import json
import os
from random import Random

import pytest

from tests.fuzz.mutation import BODIES, mutants
from trimtab.context.apply.apply import apply
from trimtab.context.plan.plan import plan
from trimtab.context.policy import Policy
from trimtab.context.read.history import Reader
from trimtab.context.read.memo import Memo
from trimtab.dialects.dialect import Dialect
from trimtab.dialects.paths import DIALECTS
from trimtab.errors import InvalidRequest
from trimtab.wire.request import Unreadable

COUNT = int(os.environ.get("TRIMTAB_FUZZ", "2000"))
SEED = int(os.environ.get("TRIMTAB_FUZZ_SEED", "1"))
POLICIES = [Policy(), Policy(strict_roles=True), Policy(binds_thinking=True), Policy(compaction=True)]


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_what_can_be_read_can_be_planned_and_written(dialect: Dialect) -> None:
    random = Random(SEED)
    for body in mutants(Random(SEED), BODIES[dialect.name], COUNT):
        with contextlib.suppress(InvalidRequest, Unreadable):
            shaped(dialect, body, random.choice((1, 20, 40, 80)), random.choice(POLICIES))


def shaped(dialect: Dialect, body: bytes, budget: int, policy: Policy) -> None:
    """Read, plan and write one body."""
    memo = Memo(view=dialect.format.view, digest=dialect.format.digest)
    reader = Reader(memo, decode=dialect.decode)
    reading = reader.read(body)
    history = reader.history(reading)
    made = plan(history, policy, budget, memo, dialect.format)
    sent = apply(reading.request.messages, made, "a summary", "system", dialect.format)
    found = dialect.render(reading.request, sent, dialect.capped(reading.request, 3))
    assert isinstance(json.loads(found.decode("utf-8", "replace")), dict), body
