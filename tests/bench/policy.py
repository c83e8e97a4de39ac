"""What the policy's numbers do: recorded conversations replayed through the planner, in one process.

    python -m tests.bench.policy [--window 32768 --max-output 4096 --steps 30] [--set target=0.5 ...]

Each assistant message of a recording is one request. The upstream is strict: it counts real o200k tokens, refuses
what does not fit, and serves prefixes from a cache (128-token steps, from 1,024). The table of docs/policy.md was
made with this; the same over HTTP is the arena's business.

  refused  did not fit although it was shaped    cached  share of input tokens a prefix cache served
  fill     share of the usable window, mean      cost    (fresh + 0.1 cached) over the tokens of the raw histories
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import bpe_openai
import msgspec

from tests.support.pairs import broken_pairs
from trimtab.context.apply.apply import apply
from trimtab.context.plan.plan import plan
from trimtab.context.policy import Policy, ShapingSettings
from trimtab.context.read.history import history
from trimtab.context.read.memo import Memo
from trimtab.context.read.views import view

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "transcripts"
_ENCODER = bpe_openai.get_encoding("o200k_base")
_counted: dict[bytes, int] = {}


def rendered(item: Any) -> str:
    """What a chat template renders of a message or a tool."""
    if not isinstance(item, dict) or "role" not in item:
        return json.dumps(item, ensure_ascii=False)
    content = item.get("content")
    texts = [content] if isinstance(content, str) else [p.get("text", "x " * 765) for p in content or ()]
    calls = [call.get("function") or {} for call in item.get("tool_calls") or ()]
    return "\n".join([*texts, *((c.get("name") or "") + (c.get("arguments") or "") for c in calls)])


def count(raw: bytes) -> int:
    """Real o200k tokens of one message or tool, with four for the template."""
    if raw not in _counted:
        _counted[raw] = len(_ENCODER.encode(rendered(msgspec.json.decode(raw)))) + 4
    return _counted[raw]


class PrefixCache:
    """A provider's: remembers the last eight requests; a hit is the longest common prefix, mid-message too."""

    def __init__(self) -> None:
        self._seen: list[list[bytes]] = []

    def read(self, items: list[bytes]) -> int:
        hit = max((self._common(old, items) for old in self._seen), default=0)
        self._seen = [*self._seen[-7:], items]
        return hit // 128 * 128 if hit >= 1024 else 0

    @staticmethod
    def _common(old: list[bytes], new: list[bytes]) -> int:
        hit = 0
        for a, b in zip(new, old, strict=False):
            if a == b:
                hit += count(a)
                continue
            same = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
            return hit + count(a) * same // max(1, len(a))
        return hit


@dataclass
class Score:
    name: str
    requests: int = 0
    over: int = 0
    refused: int = 0
    broken: int = 0
    sent: int = 0
    cached: int = 0
    raw: int = 0
    fill: list[float] = field(default_factory=list)
    stages: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: Score) -> Score:
        mine, theirs = vars(self), vars(other)
        return Score(self.name, **{k: v + theirs[k] for k, v in mine.items() if k != "name"})

    @property
    def row(self) -> str:
        fill = statistics.mean(self.fill) if self.fill else 0.0
        cost = (self.sent - 0.9 * self.cached) / max(1, self.raw)
        return (
            f"{self.name[:40]:40} {self.requests:5} {self.over:5} {self.refused:4} {self.broken:3} "
            f"{self.cached / max(1, self.sent):.3f} {fill:.3f} {cost:.4f}  {dict(self.stages)}"
        )


HEAD = f"{'':40} {'req':>5} {'over':>5} {'ref':>4} {'inv':>3} {'cached':5} {'fill':5} {'cost':6}"


def load(path: Path) -> tuple[list[bytes], list[bytes]]:
    """Messages and tools of a recording, each as the bytes a client would send."""
    data = json.loads(gzip.decompress(path.read_bytes()))
    return [msgspec.json.encode(m) for m in data["messages"]], [msgspec.json.encode(t) for t in data.get("tools") or ()]


def requests(messages: list[bytes], tools: list[bytes], limit: int, most: int) -> list[tuple[int, int]]:
    """(length, raw tokens) of the requests to replay; a third of them come before the window is outgrown."""
    roles = [view(m).role for m in messages]
    out, total = [], sum(map(count, tools))
    for i, raw in enumerate(messages):
        if roles[i] == "assistant" and i and roles[i - 1] in ("user", "tool"):
            out.append((i, total))
        total += count(raw)
    over = next((k for k, (_, t) in enumerate(out) if t > limit), len(out))
    start = max(0, over - most // 3)
    return out[start : start + most]


def replay(path: Path, window: int, max_output: int, steps: int, policy: Policy) -> Score | None:
    """One recording against one window; None when it fits as it is."""
    messages, tools = load(path)
    limit = window - max_output
    if sum(map(count, [*tools, *messages])) <= limit:
        return None
    extras = [b"[" + b",".join(tools) + b"]"] if tools else []
    score, cache, memo = Score(path.name), PrefixCache(), Memo()
    for length, raw_tokens in requests(messages, tools, limit, steps):
        head = messages[:length]
        made = plan(history(head, extras, memo), policy, limit, memo)
        sent = [bytes(m) for m in apply(head, made)]
        tokens = sum(map(count, [*tools, *sent]))
        score.requests += 1
        score.over += raw_tokens > limit
        score.stages.update(edit.stage for edit in made.edits)
        score.broken += broken_pairs(memo.views(sent)) > broken_pairs(memo.views(head))
        if tokens > limit or not made.fits:
            score.refused += 1
            continue
        score.sent, score.raw = score.sent + tokens, score.raw + raw_tokens
        score.cached += min(tokens, cache.read([*tools, *sent]))
        if raw_tokens > limit:
            score.fill.append(tokens / limit)
    return score


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--window", type=int, default=32_768)
    parser.add_argument("--max-output", type=int, default=4_096)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--only", default="")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("-v", action="store_true", help="a row for each recording")
    args = parser.parse_args()
    given = {key: json.loads(value) for key, value in (pair.split("=") for pair in args.set)}
    policy = Policy(shaping=ShapingSettings(**given))
    total = Score(f"all, {given or 'defaults'}")
    print(HEAD)
    for path in sorted(CORPUS.glob(f"*{args.only}*.json.gz" if args.only else "*.json.gz")):
        score = replay(path, args.window, args.max_output, args.steps, policy)
        if score is not None:
            total += score
            if args.v:
                print(score.row, flush=True)
    print(total.row)


if __name__ == "__main__":
    main()
