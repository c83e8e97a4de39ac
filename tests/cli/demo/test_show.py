"""What the demo draws, with and without a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

pytest.importorskip("openai", reason="the demo's client: pip install 'trimtab[demo]'")
pytest.importorskip("bpe_openai", reason="the demo's tokenizer: pip install 'trimtab[demo]'")

from trimtab.cli.demo.client import Step
from trimtab.cli.demo.score import score
from trimtab.cli.demo.show import curves, table, watched

STEPS = [Step(n, n, sent=100 * n, cached=50 * n) for n in range(1, 41)]
SIZES = [1000 * n for n in range(41)]


@pytest.mark.parametrize("terminal", [True, False])
def test_every_step_comes_through_and_the_last_is_shown(terminal: bool) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=120)
    assert list(watched(console, STEPS, 40, SIZES, "Run")) == STEPS
    assert "40" in out.getvalue()
    if not terminal:
        lines = out.getvalue().splitlines()
        assert len(lines) == 8
        assert lines[-1].startswith("Run: request 40 of 40, history 40,000 tokens, sent 4,000")


def test_the_table_sets_both_runs_side_by_side() -> None:
    console = Console(file=io.StringIO(), width=100, record=True)
    refused = Step(3, 3, error="too long")
    console.print(table(40, score([*STEPS[:2], refused], SIZES), refused, score(STEPS, SIZES)))
    printed = console.export_text()
    for word in ("2 of 40", "40 of 40", "at request 3", "relative cost", "p50"):
        assert word in printed


def test_curves_are_on_one_scale() -> None:
    console = Console(file=io.StringIO(), width=60)
    history, sent = (line.plain for line in curves(console, STEPS, SIZES, 8000))
    assert "up to 40,000" in history
    assert "up to 4,000" in sent
    assert "\u2588" in history
    assert "\u2588" not in sent


def test_no_curve_of_a_single_step() -> None:
    assert list(curves(Console(file=io.StringIO()), STEPS[:1], SIZES, 8000)) == []
