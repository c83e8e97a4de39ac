"""codex, Claude Code, openai-agents and Anthropic's SDK read pages in a window that is too small for the run, each in
its own dialect: through Trimtab they finish and nothing is refused, without it they run into the window.

The upstream checks every request as the provider would (see `scripted_model`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e import install
from tests.e2e.clients import SCRIPTS, Client, run
from tests.e2e.scripted_model import DONE, ScriptedModel
from tests.support.served import serving

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(400)]
WITHIN_S = 300.0
QUESTION = "Read every page, step by step."
CONFIG = """[models."*"]
context_size = {window}
max_output_tokens = 1000
"""
CODEX = """model = "{name}"
model_provider = "trimtab"
[model_providers.trimtab]
name = "trimtab"
base_url = "{base_url}"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
"""


def codex(model: str = "strict-model") -> Client:
    flags = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "--json"]
    files = {".codex/config.toml": CODEX.replace("{name}", model)}
    return Client([str(install.node_bin("codex")), "exec", *flags, "{question}"], 0, files=files)


def claude(model: str = "claude-opus-4-8") -> Client:
    flags = ["--model", model, "--dangerously-skip-permissions", "--output-format", "text"]
    env = {"ANTHROPIC_BASE_URL": "{origin}", "ANTHROPIC_AUTH_TOKEN": "sk-test", "IS_SANDBOX": "1"}
    return Client([str(install.node_bin("claude")), "-p", "{question}", *flags], 0, env)


def script(name: str, env: Mapping[str, str]) -> Client:
    return Client([str(install.python()), str(SCRIPTS / f"{name}.py"), "{question}"], 0, env)


@dataclass(frozen=True)
class Run:
    """One client, the pages it reads, and the window, in tokens, that it reads them in. `learned`: the window is not
    configured, and the most refusals that teach it."""

    client: Client
    window: int
    pages: int
    chars: int  # of a page
    parallel: int = 1
    binds: bool = False
    learned: int = 0

    @property
    def config(self) -> str:
        return "" if self.learned else CONFIG.format(window=self.window)

    def model(self) -> ScriptedModel:
        commands = [f"cat page_{n}.txt" for n in range(self.pages)]
        return ScriptedModel(self.window, commands, self.parallel, binds=self.binds)

    def write(self, home: Path) -> None:
        home.mkdir()
        for n in range(self.pages):
            (home / f"page_{n}.txt").write_text((f"line {n} of a page, with some words in it.\n" * 300)[: self.chars])


RUNS = {
    "codex, large pages": Run(codex(), 24_000, 10, 10_240),
    "codex, two at a time": Run(codex(), 16_000, 60, 1_200, parallel=2),
    "codex, code mode": Run(codex("gpt-6.2-sol"), 26_000, 10, 10_240),
    "claude code, large pages": Run(claude(), 36_000, 10, 10_240),
    "claude code, two at a time": Run(claude(), 30_000, 60, 1_200, parallel=2),
    "claude code, bound thinking": Run(claude("claude-opus-5-5"), 30_000, 60, 1_200, parallel=2, binds=True),
    "codex, window learned": Run(codex(), 24_000, 10, 10_240, learned=2),
    "claude code, window learned": Run(claude(), 36_000, 10, 10_240, learned=1),
    "openai-agents": Run(script("openai_agents_responses", {}), 12_000, 12, 9_000),
    "anthropic": Run(script("anthropic_loop", {"ANTHROPIC_BASE_URL": "{origin}"}), 12_000, 60, 2_400, parallel=3),
}


@pytest.fixture
def reading(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    found = RUNS[request.param]
    if reason := found.client.missing:
        pytest.skip(reason)
    found.write(tmp_path / "home")
    return found


@pytest.mark.parametrize("reading", RUNS, indirect=True)
async def test_through_trimtab_it_finishes(reading: Run, tmp_path: Path) -> None:
    model = reading.model()
    async with model.upstream() as upstream, serving(upstream.base_url, reading.config) as served:
        ran = await run(reading.client, served.base_url, QUESTION, tmp_path / "home", WITHIN_S)
        records = served.records()
    assert DONE in ran.output, ran.output
    assert ran.status == 0
    assert model.complaints == []
    assert model.refused <= reading.learned
    assert {record["outcome"] for record in records} >= {"passed", "shaped"}
    assert model.accepted <= reading.pages // reading.parallel + 3, "it never compacts by itself"


@pytest.mark.parametrize("reading", [name for name, run in RUNS.items() if not run.learned], indirect=True)
async def test_without_trimtab_it_runs_into_the_window(reading: Run, tmp_path: Path) -> None:
    """codex and the SDKs end there; Claude Code compacts, again and again where little fits."""
    model = reading.model()
    async with model.upstream() as upstream:
        await run(reading.client, upstream.base_url, QUESTION, tmp_path / "home", WITHIN_S)
    assert model.refused >= 1
