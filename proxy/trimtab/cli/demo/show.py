"""What the demo draws: progress while it runs, a table and curves at its end. Plain lines without a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from trimtab.cli.demo.client import Step
from trimtab.cli.demo.score import Score
from trimtab.cli.terminal import ascii_only

_LINES = 8  # progress lines without a terminal
_LEVELS = "▁▂▃▄▅▆▇█"
_ASCII_LEVELS = "_.-=+*%#"


def watched(console: Console, steps: Iterable[Step], last: int, sizes: Sequence[int], name: str) -> Iterator[Step]:
    """Pass the steps on and show their progress up to number `last`: a bar on a terminal, else some lines."""
    return (_with_bar if console.is_terminal else _with_lines)(console, steps, last, sizes, name)


def _with_bar(console: Console, steps: Iterable[Step], last: int, sizes: Sequence[int], name: str) -> Iterator[Step]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[step]}"))
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(name, total=last, step="")
        for step in steps:
            progress.update(task, completed=step.number, step=_described(step, sizes))
            yield step


def _with_lines(console: Console, steps: Iterable[Step], last: int, sizes: Sequence[int], name: str) -> Iterator[Step]:
    lines = 0
    for step in steps:
        if step.number * _LINES >= (lines + 1) * last:
            lines = step.number * _LINES // last
            text = f"{name}: request {step.number} of {last}, {_described(step, sizes)}"
            console.print(text, markup=False, soft_wrap=True)
        yield step


def _described(step: Step, sizes: Sequence[int]) -> str:
    if step.error:
        return f"history {sizes[step.messages]:,} tokens, refused"
    return f"history {sizes[step.messages]:,} tokens, sent {step.sent:,}, {step.cached:,} of them cached"


def table(total: int, without: Score, refused_at: Step | None, with_: Score) -> Table:
    """Both runs side by side. `refused_at` is the step that ended the run without the proxy."""
    grid = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 3, 0, 0))
    for name in ("", "without Trimtab", "with Trimtab"):
        grid.add_column(name, style="dim" if not name else "", overflow="fold")
    stop = f"at request {refused_at.number}: the end" if refused_at else "never"
    green = Text(str(with_.refused), "bold green" if not with_.refused else "bold red")
    rows: list[tuple[str, str | Text, str | Text]] = [
        ("requests answered", f"{without.answered} of {total}", f"{with_.answered} of {with_.made}"),
        ("refused", Text(stop, "bold red" if refused_at else ""), green),
        ("tokens in the histories", f"{without.raw:,}", f"{with_.raw:,}"),
        ("tokens sent", f"{without.sent:,}", f"{with_.sent:,}"),
        ("served from the cache", f"{without.cached_share:.1%}", f"{with_.cached_share:.1%}"),
        ("relative cost (1: whole, uncached)", "", f"{with_.cost:.3f}"),
        ("edits in the last request", "", edits(with_)),
        ("added by the proxy", "", f"p50 {with_.added_p50:.1f} ms, p99 {with_.added_p99:.1f} ms"),
    ]
    for row in rows:
        grid.add_row(*row)
    return grid


def edits(score: Score) -> str:
    """The edits of a score in words: `cleared 40, dropped 3`."""
    return ", ".join(f"{stage} {count:,}" for stage, count in score.edits.items()) or "none"


def curves(console: Console, steps: Sequence[Step], sizes: Sequence[int], window: int) -> Iterator[Text]:
    """Two curves along the run, on one scale: the history, and what was sent of it. `window` is in tokens."""
    good = [step for step in steps if not step.error]
    if len(good) < 2:
        return
    history = [sizes[step.messages] for step in good]
    top = max(*history, window)
    levels = _ASCII_LEVELS if ascii_only(console) else _LEVELS
    width = max(8, min(console.width - 34, 72, len(good)))
    for name, values, colour in (("history", history, "dim"), ("sent", [s.sent for s in good], "green")):
        drawn = "".join(levels[_level(value, top, len(levels))] for value in _columns(values, width))
        yield Text.assemble(f"{name:>8} ", (drawn, colour), f"  up to {max(values):,}")


def _columns(values: Sequence[int], width: int) -> list[int]:
    """`values` in `width` columns, each the largest of its part, so that no peak is lost."""
    edges = [len(values) * i // width for i in range(width + 1)]
    return [max(values[a:b]) for a, b in pairwise(edges) if b > a]


def _level(value: int, top: int, levels: int) -> int:
    return min(levels - 1, value * levels // max(1, top + 1))
