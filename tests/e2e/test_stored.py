"""openai-agents sends only what is new, by `previous_response_id`, by `conversation` and with its own sessions: the
proxy holds the conversation, through an upstream that holds nothing and checks every request as the provider would.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e import install
from tests.e2e.clients import SCRIPTS, Client, run
from tests.e2e.scripted_model import DONE, ScriptedModel
from tests.support.scripted import ScriptedUpstream
from tests.support.served import serving
from tests.support.stateless import StatelessModel

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(400)]
WITHIN_S = 300.0
# A session reads the whole history before each turn, in pages of 20 items: that takes its time.
TURNS = {"previous": 300, "conversation": 300, "session": 100}
CONFIG = """[models."*"]
context_size = {window}
max_output_tokens = 1000
[conversations]
store = "sqlite:///{folder}/c.db"
"""


def client(mode: str) -> Client:
    script = [str(install.python()), str(SCRIPTS / "openai_agents_stored.py")]
    found = Client([*script, mode, "{question}"], 0)
    if found.missing:
        pytest.skip(found.missing)
    return found


# A session saves calls without their ids, and this upstream knows by its own ids which reasoning belongs to a call.
@pytest.mark.parametrize("mode", ["previous", "conversation"])
async def test_it_reads_with_tools_what_is_stored_here(mode: str, tmp_path: Path) -> None:
    home, pages = tmp_path / "home", 12
    home.mkdir()
    for n in range(pages):
        (home / f"page_{n}.txt").write_text((f"line {n} of a page, with some words in it.\n" * 300)[:9_000])
    (home / "inputs").write_text("Read every page, step by step.\nAnd again?\n")
    model = ScriptedModel(12_000, [f"cat page_{n}.txt" for n in range(pages)])
    config = CONFIG.format(window=12_000, folder=tmp_path)
    async with model.upstream() as upstream, serving(upstream.base_url, config) as served:
        ran = await run(client(mode), served.base_url, "inputs", home, WITHIN_S)
    assert DONE in ran.output, ran.output
    assert (ran.status, model.complaints, model.refused) == (0, [], 0)
    assert model.accepted == pages + 2


@pytest.mark.parametrize("mode", ["previous", "conversation", "session"])
async def test_it_holds_a_long_conversation_in_a_small_window(mode: str, tmp_path: Path) -> None:
    turns = TURNS[mode]
    home, model = tmp_path / "home", StatelessModel(8_000)
    home.mkdir()
    fact = "The code of room {n} is {n}. " + "It is on the left, behind the second door. " * 6
    (home / "inputs").write_text("\n".join(fact.format(n=n) for n in range(turns)))
    config = CONFIG.format(window=8_000, folder=tmp_path)
    async with ScriptedUpstream(model) as upstream, serving(upstream.base_url, config) as served:
        ran = await run(client(mode), served.base_url, "inputs", home, WITHIN_S)
    assert ran.status == 0, ran.output
    assert f"answer {turns}" in ran.output
    assert len(model.seen) == turns
    assert model.largest <= 8_000
    for turn, messages in enumerate(model.seen):
        text = "\n".join(messages)
        assert all(f"The code of room {n} is {n}." in text for n in range(max(0, turn - 5), turn + 1))
