"""How close calibrated estimates come to what upstreams count, on recorded agent runs.

    python -m tests.bench.bench_calibration [--transcripts DIR] [--truth FILE]

Each recorded conversation is replayed request by request (the messages before each assistant message)
against each tokenizer as the upstream's truth, with a fresh calibration, as an unknown model. Errors are
(estimate with factor) / (what the upstream counts) - 1. Tokenizers marked * are known per conversation only;
their counts per message are those of o200k, scaled. The upstream counts 4 tokens a message for its template.

Four tables: conversations alone; the first request after a clearing step, in a small window; whether a strict
upstream refuses; and several conversations at once through one factor.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from trimtab.context.estimate.tokens import text_tokens
from trimtab.limits import Limits

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "corpus"
EXACT = ("o200k", "claude2", "qwen3")
SCALED = ("cl100k", "llama3", "deepseek_v3", "tekken", "gemma3")
TEMPLATE = 4  # tokens a message
PLACEHOLDER = 40  # tokens of a cleared result, by any count


@dataclass
class Run:
    """One conversation: per message our estimate and the upstream's count, and where its requests end."""

    name: str
    roles: list[str]
    estimated: list[int]
    actual: list[int]
    tools: tuple[int, int]
    ends: list[int]

    def requests(self) -> Iterator[tuple[int, int]]:
        """(estimated, actual) tokens of each request."""
        estimated, actual = self.tools
        at = 0
        for end in self.ends:
            estimated += sum(self.estimated[at:end])
            actual += sum(self.actual[at:end])
            at = end
            yield estimated, actual


def text_of(message: dict[str, Any]) -> str:
    """What a chat template would render: the text, call names and arguments."""
    content = message.get("content")
    parts = [content] if isinstance(content, str) else [p.get("text", "x " * 765) for p in content or []]
    for call in message.get("tool_calls") or []:
        function = call.get("function") or {}
        parts.append((function.get("name") or "") + (function.get("arguments") or ""))
    return "\n".join(part or "" for part in parts)


def load(transcripts: Path, truth: Path) -> dict[str, list[Run]]:
    """Runs by tokenizer; `1.7 x o200k` stands for the dearest upstreams."""
    counts = json.loads(truth.read_text())
    runs: dict[str, list[Run]] = {}
    for path in sorted(transcripts.glob("*.gz")):
        counted = counts.get(path.name) or {}
        if "per_message" in counted.get("o200k", {}):
            for tokenizer, run in runs_of(path, counted):
                runs.setdefault(tokenizer, []).append(run)
    return runs


def runs_of(path: Path, counted: dict[str, Any]) -> Iterator[tuple[str, Run]]:
    with gzip.open(path, "rt") as f:
        recorded = json.load(f)
    messages, tools = recorded["messages"], recorded.get("tools") or []
    estimated = [text_tokens(text_of(m)) + TEMPLATE for m in messages]
    tools_estimated = sum(text_tokens(json.dumps(t, ensure_ascii=False)) + TEMPLATE for t in tools)
    roles = [m["role"] for m in messages]
    ends = [i for i, role in enumerate(roles) if role == "assistant" and i]
    o200k = counted["o200k"]
    plain = o200k["total"] - o200k["tools"]
    truths = {name: (counted[name]["per_message"], counted[name]["tools"]) for name in EXACT if name in counted}
    for name in SCALED:
        if name in counted:
            scale = (counted[name]["total"] - counted[name]["tools"]) / plain
            truths[name + "*"] = ([n * scale for n in o200k["per_message"]], counted[name]["tools"])
    truths["1.7 x o200k"] = ([n * 1.7 for n in o200k["per_message"]], o200k["tools"] * 1.7)
    for name, (per_message, of_tools) in truths.items():
        actual = [round(n) + TEMPLATE for n in per_message]
        tools_both = (tools_estimated, round(of_tools) + TEMPLATE * len(tools))
        yield name, Run(path.name.removesuffix(".json.gz"), roles, estimated, actual, tools_both, ends)


@dataclass
class Score:
    """Errors by how many responses had been seen, and how often the factor moved."""

    errors: list[list[float]] = field(default_factory=list)
    moves: int = 0
    late: int = 0

    def after(self, n: int) -> list[float]:
        return [errors[n] for errors in self.errors if len(errors) > n]

    def from_request(self, n: int) -> list[float]:
        """From the n-th request of each conversation on; n - 1 responses were seen before it."""
        return [error for errors in self.errors for error in errors[n - 1 :]]

    def weighted(self, n: int) -> list[tuple[float, float]]:
        """(|error|, weight) from the n-th request on: every conversation weighs the same, however long."""
        tails = [errors[n - 1 :] for errors in self.errors if len(errors) >= n]
        return [(abs(error), 1 / len(tail)) for tail in tails for error in tail]


def alone(runs: list[Run], model: str = "an-unknown-model") -> Score:
    score = Score()
    for run in runs:
        limits = Limits()
        errors, factors = [], []
        for estimated, actual in run.requests():
            factor = limits.factor("u", model)
            errors.append(factor * estimated / actual - 1)
            factors.append(factor)
            limits.observe("u", model, estimated, actual)
        score.errors.append(errors)
        score.moves += sum(a != b for a, b in pairwise(factors[5:]))
        score.late += max(0, len(factors) - 5)
    return score


@dataclass
class Windowed:
    """What came of replaying in a small window: refusals, and errors at the first request after a clearing."""

    requests: int = 0
    refused: list[int] = field(default_factory=list)
    cleared: list[float] = field(default_factory=list)


def windowed(runs: list[Run], window: int, target: float = 0.6, model: str = "an-unknown-model") -> Windowed:
    """Oldest tool results, then oldest messages, go when the estimate with its factor is over the window."""
    result = Windowed()
    for run in runs:
        limits = Limits()
        kept = [(0, run.tools)]
        at = 0
        for number, end in enumerate(run.ends):
            kept += [(i, (run.estimated[i], run.actual[i])) for i in range(at, end)]
            at = end
            factor = limits.factor("u", model)
            before = sum(e for _, (e, _) in kept)
            if factor * before > window:
                kept = shaped(kept, run.roles, target * window / factor)
            estimated = sum(e for _, (e, _) in kept)
            actual = sum(a for _, (_, a) in kept)
            if factor * estimated > window:
                continue  # a single message larger than the window: refused by us, with a reason
            result.requests += 1
            if estimated < before:
                result.cleared.append(factor * estimated / actual - 1)
            if actual > window:
                result.refused.append(number)
            limits.observe("u", model, estimated, actual, accepted=actual <= window)
    return result


def shaped(kept: list[tuple[int, tuple[int, int]]], roles: list[str], goal: float) -> list[tuple[int, tuple[int, int]]]:
    size = sum(e for _, (e, _) in kept)
    out = list(kept)
    for k, (i, (e, _)) in enumerate(kept[:-1]):
        if size <= goal:
            return out
        if k and roles[i] == "tool" and e > 2 * PLACEHOLDER:
            out[k] = (i, (PLACEHOLDER, PLACEHOLDER))
            size -= e - PLACEHOLDER
    while size > goal and len(out) > 3:
        size -= out.pop(2)[1][0]
    return out


def together(runs: list[Run], at_once: int, seed: int = 1) -> tuple[list[float], float]:
    """Errors and moves a hundred requests of `at_once` conversations in random order through one factor."""
    rnd = random.Random(seed)
    waiting = [list(run.requests())[:200] for run in runs]
    rnd.shuffle(waiting)
    active = [iter(waiting.pop()) for _ in range(min(at_once, len(waiting)))]
    limits, errors, moves, last = Limits(), list[float](), 0, 0.0
    while active:
        which = rnd.randrange(len(active))
        pair = next(active[which], None)
        if pair is None:
            active.pop(which)
            active += [iter(waiting.pop())] if waiting else []
            continue
        factor = limits.factor("u", "m")
        errors.append(factor * pair[0] / pair[1] - 1)
        moves += factor != last
        last = factor
        limits.observe("u", "m", *pair)
    return errors[20:], 100 * moves / len(errors)


def quantile(weighted: list[tuple[float, float]], q: float) -> float:
    total, seen = sum(w for _, w in weighted), 0.0
    for value, weight in sorted(weighted):
        seen += weight
        if seen >= q * total:
            return value
    return 0.0


def summary(errors: list[float]) -> str:
    """median / p95 of |error|, percent."""
    if not errors:
        return "-"
    sizes = sorted(map(abs, errors))
    return f"{100 * median(sizes):.1f} / {100 * sizes[min(len(sizes) - 1, int(0.95 * len(sizes)))]:.1f}"


def print_alone(runs: dict[str, list[Run]]) -> None:
    print("## One conversation at a time: median / p95 of |error|, %\n")
    print(
        "| upstream counts | no factor | after 1 | after 3 | after 10 | from 3rd request"
        " | > 5 % under, from 5th request | worst | moves / 100 |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    whole = Score()
    for name, some in [*runs.items(), ("all", [])]:
        score = alone(some) if some else whole
        whole.errors += score.errors if some else []
        whole.moves, whole.late = whole.moves + score.moves * bool(some), whole.late + score.late * bool(some)
        plain = [e / a - 1 for run in some for e, a in run.requests()] if some else []
        late = score.from_request(5)
        both = f"{100 * quantile(score.weighted(3), 0.5):.1f} / {100 * quantile(score.weighted(3), 0.95):.1f}"
        cells = [name, summary(plain), *(summary(score.after(n)) for n in (1, 3, 10)), both]
        cells += [f"{sum(e < -0.05 for e in late)} of {len(late)}", f"{100 * min(late):.1f}"]
        print("| " + " | ".join([*cells, f"{100 * score.moves / score.late:.1f}"]) + " |")


def print_windowed(runs: dict[str, list[Run]], windows: tuple[int, ...] = (8_000, 32_000, 96_000)) -> None:
    print("\n## In a window, shaped: refusals after the first response, and the error right after a clearing, %\n")
    print("| upstream counts | " + " | ".join(f"refused, {w:,} | after clearing, {w:,}" for w in windows) + " |")
    print("|---|" + "---|---|" * len(windows))
    for name, some in runs.items():
        cells = [name]
        for window in windows:
            result = windowed(some, window)
            cells += [f"{sum(n > 0 for n in result.refused)} of {result.requests}", summary(result.cleared)]
        print("| " + " | ".join(cells) + " |")


def print_together(runs: dict[str, list[Run]]) -> None:
    print("\n## Several conversations at once, one factor\n")
    print("| upstream counts | at once | median / p95 of the error, % | median, signed | > 5 % under | moves / 100 |")
    print("|---|---|---|---|---|---|")
    for name in EXACT:
        for at_once in (2, 8):
            errors, moves = together(runs[name], at_once)
            under = 100 * sum(e < -0.05 for e in errors) / len(errors)
            signed = f"{100 * median(errors):+.1f}"
            print(f"| {name} | {at_once} | {summary(errors)} | {signed} | {under:.1f} % | {moves:.1f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transcripts", type=Path, default=SHARED / "transcripts")
    parser.add_argument("--truth", type=Path, default=SHARED / "transcript_truth.json")
    args = parser.parse_args()
    if not args.truth.exists():
        raise SystemExit(f"{args.truth} is missing: name the recorded runs with --transcripts and --truth")
    runs = load(args.transcripts, args.truth)
    print_alone(runs)
    print_windowed(runs)
    print_together(runs)


if __name__ == "__main__":
    main()
