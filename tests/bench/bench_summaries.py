"""What summaries cost: tokens read for the tokens they stand for, and the time a request spends on fetching
one.

    python -m tests.bench.bench_summaries CORPUS      a folder of recorded conversations (JSON, gzipped)

Reading: every conversation grows segment by segment, and at every `batch` segments the summary is brought
up to date by a model that answers in 220 tokens. True o200k counts; a message counts its text, call names,
arguments and 4. Time: a summary that is there, from memory and from a real server; and one whose server is
killed or frozen.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import bpe_openai
import msgspec

from tests.support.summary_models import Keeper, conversation, want
from tests.support.valkey import Valkey
from trimtab.context.estimate.tokens import text_tokens
from trimtab.context.plan.wanted import SummaryWanted, chain
from trimtab.store.memory import MemoryStore
from trimtab.store.protocol import Store
from trimtab.store.settings import RedisSettings, open_store
from trimtab.summaries.chain import Writer
from trimtab.summaries.completion import Completion, CompletionRequest
from trimtab.summaries.prompts import load_prompts
from trimtab.summaries.settings import CompactionSettings
from trimtab.summaries.summarizer import Summarizer

ENCODER = bpe_openai.get_encoding("o200k_base")
SUMMARY = "Summary: the task, the files read, the decisions taken and the open points, kept short. " * 12
BUDGET = 28_672  # tokens: a window of 32K less 4K of output
WRITER = Writer("model", b"key", read_tokens=BUDGET)


class Reader:
    """Counts what it is given to read, and answers the same 220 tokens."""

    def __init__(self) -> None:
        self.tokens = self.calls = 0

    async def __call__(self, request: CompletionRequest) -> Completion:
        self.calls += 1
        self.tokens += sum(counted(json.loads(message)) for message in request.messages)
        return Completion(SUMMARY)


def counted(message: dict[str, Any]) -> int:
    content = message.get("content") or ""
    parts = [content] if isinstance(content, str) else [part.get("text", "") for part in content]
    for call in message.get("tool_calls") or []:
        parts.append(call["function"]["name"] + call["function"]["arguments"])
    return len(ENCODER.encode("\n".join(parts))) + 4


def segments(messages: Sequence[dict[str, Any]], size: int) -> list[tuple[int, int]]:
    """Whole units of at least `size` estimated tokens, after the leading system message."""
    spans, start, held = [], 1, 0
    for i in range(1, len(messages)):
        if held >= size and messages[i]["role"] != "tool":
            spans.append((start, i))
            start, held = i, 0
        held += text_tokens(json.dumps(messages[i], ensure_ascii=False))
    return spans


async def reading(paths: list[Path], share: float, batch: int) -> tuple[int, int, int]:
    """Tokens read, tokens summarized away, calls."""
    away, reader = 0, Reader()
    for path in paths:
        messages = json.loads(gzip.decompress(path.read_bytes()))["messages"]
        spans = segments(messages, int(share * BUDGET))[:30]
        raws = [msgspec.json.encode(message) for message in messages]
        digests = chain(raws, spans)
        summarizer = Summarizer(CompactionSettings(), MemoryStore(), reader, load_prompts())
        for k in range(batch, len(spans) + 1, batch):
            wanted = SummaryWanted(tuple(spans[:k]), digests[:k], 2_000, "react_iteration")
            outcome = await summarizer.fetch(wanted, raws, WRITER)
            assert outcome.result == "miss"
            away += sum(counted(messages[i]) for start, stop in spans[k - batch : k] for i in range(start, stop))
        await summarizer.drain(0)
    return reader.tokens, away, reader.calls


async def fetching(store: Store, times: int, before: Callable[[], None] = lambda: None) -> list[float]:
    """Milliseconds of each of `times` fetches of a summary that was made before."""
    messages = conversation(20)
    summarizer = Summarizer(CompactionSettings(), store, Keeper(), load_prompts())
    await summarizer.fetch(want(messages, 8), messages, WRITER)
    before()
    took = []
    for _ in range(times):
        start = time.perf_counter()
        await summarizer.fetch(want(messages, 8), messages, WRITER)
        took.append((time.perf_counter() - start) * 1e3)
    await summarizer.drain(0)
    return took


async def times() -> None:
    for name in ("memory", "server", "server killed", "server frozen"):
        server = Valkey()
        redis = None if name == "memory" else RedisSettings(url=f"redis://{server.address}")
        store = open_store(redis)
        await store.ping()
        faults: dict[str, Callable[[], None]] = {"server killed": server.kill, "server frozen": server.freeze}
        took = await fetching(store, 500, faults.get(name, lambda: None))
        print(
            f"{name:14} median {statistics.median(took):6.2f} ms, p99 {sorted(took)[-5]:6.2f} ms, "
            f"worst {max(took):6.2f} ms, in all {sum(took):7.1f} ms"
        )
        server.thaw()
        await store.aclose()
        server.stop()


def main() -> None:
    paths = sorted(Path(sys.argv[1]).glob("*.json.gz"))
    for share in (0.1, 0.15, 0.25):
        for batch in (1, 2, 3):
            read, away, calls = asyncio.run(reading(paths, share, batch))
            print(
                f"segments of {share:.2f}, {batch} at a time: read {read:9,} for {away:9,} = {read / away:.3f}"
                f" in {calls} calls"
            )
    asyncio.run(times())


if __name__ == "__main__":
    main()
