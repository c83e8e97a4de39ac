"""Text in any script, and what only looks like text."""

from __future__ import annotations

import json

import msgspec
import pytest

from tests.cases.case import CHINESE, case
from tests.cases.trial import squeezed, tried, window
from tests.support.chat import post
from tests.support.conversations import agent_run, cycle
from tests.support.running import running
from tests.support.scripted import ScriptedUpstream, chunk
from tests.support.streams import BEGUN, END

pytestmark = pytest.mark.anyio

CASES = {
    "B030": "lone surrogates pass as they came, and are mended only in what is rewritten",
    "B032": "a character split between two chunks comes out whole",
    "B033": "byte by byte, a stream is the same stream (tests/faults/test_streams.py has the whole table)",
}
LONE = r"bad \ud83d here \udc00 \ud83d\ud83d"


def with_lone(size: int = 500) -> bytes:
    """An agent's run in which results and calls hold lone surrogates, as JSON escapes."""
    messages = agent_run(2)
    for n in range(20):
        messages += cycle(n + 2, size)
    text = json.dumps({"model": "m", "messages": messages})
    return (
        text.replace("page 3:", LONE).replace("page 40:", LONE).replace('\\"page\\":', '\\"' + LONE + '\\":').encode()
    )


async def test_lone_surrogates_pass_untouched_and_hurt_nothing() -> None:
    raw = case("B030")["raw_body"].encode()
    trial = await tried(raw)
    assert trial.untouched
    assert trial.answer.headers["x-trimtab-tokens"]
    for path in ("/v1/context/plan", "/v1/embeddings"):
        assert (await tried(raw, path=path)).answer.status == 200


async def test_lone_surrogates_are_mended_where_a_message_is_rewritten() -> None:
    trial = await tried(with_lone(), toml=window(8_192))
    assert trial.answer.status == 200
    assert "cleared=0" not in trial.edits
    assert b"\\ud83d here" not in trial.asked[0].body
    msgspec.json.decode(trial.asked[0].body)  # a strict reader takes it
    assert '"level":"error"' not in trial.log


async def test_lone_surrogates_reach_summaries_and_keys_without_harm() -> None:
    toml = window(8_192) + '[compaction]\nmodel = "same"\n'
    trial = await tried(with_lone(900), toml=toml, times=2)
    assert trial.answer.status == 200
    assert trial.asked[-1].body == next(r.body for r in trial.asked if b"Write the summary" not in r.body)


@pytest.mark.parametrize(
    "text", [CHINESE, "Ω≈ç√∫˜µ≤", "👩‍👩‍👧‍👦🏳️‍🌈", "مرحبا بالعالم ", "สวัสดีชาวโลก", "e\u0301\u200b\u202e\ufeff\u0000"]
)
async def test_cutting_never_splits_a_character(text: str) -> None:
    messages = [{"role": "user", "content": "read"}, *cycle(1, 5), {"role": "user", "content": "go on"}]
    messages[2]["content"] = text * 3_000
    for _, sent in await squeezed({"model": "m", "messages": messages}):
        for message in sent:
            content = message.get("content") or ""
            content.encode()  # no half of a pair
            assert "\ufffd" not in content


async def test_a_character_split_between_chunks_comes_out_whole() -> None:
    whole = 'data: {"choices":[{"index":0,"delta":{"content":"北"}}]}\n\n'.encode()
    at = whole.index(b"\xe5") + 1
    script = [BEGUN, chunk(whole[:at]), chunk(whole[at:]), END]
    async with ScriptedUpstream(script) as upstream, running(upstream.base_url) as proxy:
        answer = await post(proxy.url, {"model": "m", "stream": True, "messages": []})
    assert answer.body == whole
