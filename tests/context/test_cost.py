"""Planning is linear in time, counted in steps, and the same in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.messages import prose, system, tool_loop, user
from trimtab.context.apply.apply import apply
from trimtab.context.plan.plan import plan
from trimtab.context.policy import Policy, ShapingSettings
from trimtab.context.read.history import history
from trimtab.context.read.memo import Memo

Raws = Sequence[bytes]


def steps(raws: Raws, policy: Policy, budget: int, extra: Raws = ()) -> int:
    """Lines of Python run while planning and applying: a count, so it is the same on every machine."""
    memo, count = Memo(), 0
    conversation = history(raws, extra, memo)

    def trace(frame: object, event: str, arg: object) -> object:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        apply(raws, plan(conversation, policy, budget, memo))
    finally:
        sys.settrace(before)
    return count


def _chat(n: int) -> list[bytes]:
    return [system(), *(m for _ in range(n // 2) for m in (user("a"), b'{"role": "assistant", "content": "b"}'))]


SHAPES = {
    "one turn of tool cycles": lambda n: [user("Begin."), *tool_loop(n // 2, 300)],
    "one turn of tiny cycles": lambda n: [user("Begin."), *tool_loop(n // 2, 5)],
    "a chat": _chat,
    "users only": lambda n: [user("a")] * n,
    "assistants only": lambda n: [b'{"role": "assistant", "content": "b"}'] * n,
    "system messages": lambda n: [m for _ in range(n // 2) for m in (system("x"), b'{"role": "assistant"}')],
    "interjections": lambda n: [m for k in range(n // 3) for m in (*tool_loop(1, 30, k), user("also"))],
    "everything pinned": lambda n: (
        [user("a", pinned=True), *[m for m in _chat(n)[1:]]][:1]
        + [b'{"role": "user", "content": "a", "pinned": true}', b'{"role": "assistant", "pinned": true}'] * (n // 2)
    ),
    "orphans": lambda n: [m for k in range(n // 2) for m in (user("a"), tool_loop(1, 40, k)[1])],
    "one id for all": lambda n: [user("Begin.")] + tool_loop(1, 60) * (n // 2),
    "late results": lambda n: [user("Begin."), *tool_loop(n // 2, 60)[::2], *tool_loop(n // 2, 60)[1::2]],
    "a system prompt too large": lambda n: [system(prose(4_000)), user("Begin."), *tool_loop(n // 2, 30)],
}
POLICIES = {
    "default": Policy(),
    "compacting": Policy(compaction=True, summary_tokens=200),
    "by tool uses": Policy(managed=True, trigger_tool_uses=3, keep_tool_uses=2),
    "nothing clearable": Policy(shaping=ShapingSettings(exclude_tools=("read_file",))),
    "a window": Policy(shaping=ShapingSettings(max_messages=40)),
}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_time_is_linear(shape: object, policy: Policy) -> None:
    small, large = (steps(shape(n), policy, 600) for n in (600, 2_400))  # type: ignore[operator]
    assert large <= 5 * small + 20_000


# -- processes ---------------------------------------------------------------------------------------------------

_CHILD = """
import sys, json, hashlib
from trimtab.context.apply.apply import apply
from trimtab.context.plan.plan import plan
from trimtab.context.read.history import history
from trimtab.context.policy import Policy
from trimtab.context.read.memo import Memo
raws = [bytes.fromhex(line) for line in sys.stdin.read().split()]
memo = Memo()
for budget in (300, 900, 2500):
    found = plan(history(raws, (), memo), Policy(), budget, memo)
    print(hashlib.sha256(b"\\n".join(bytes(m) for m in apply(raws, found))).hexdigest(), found)
"""


@pytest.mark.parametrize("raws", [[system(), user("Begin."), *tool_loop(30), user("And?"), *tool_loop(6, 900, 30)]])
def test_two_processes_send_the_same_bytes(raws: list[bytes]) -> None:
    printed = []
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", _CHILD],
            input="\n".join(raw.hex() for raw in raws).encode(),
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        )
        printed.append(done.stdout)
    assert printed[0] == printed[1]
    assert b"dropped" in printed[0]
