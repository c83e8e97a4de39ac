"""The real clients as a table: how each is started headless and told where its API is.

A client is a command in a scratch home, with files written there first. `{base_url}`, `{origin}`, `{question}`,
`{home}` and `{model}` are filled in. Agents that compact their own history have that switched off: what is tried is
Trimtab.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from tests.e2e import install
from tests.e2e.strict import MODEL

SCRIPTS = Path(__file__).parent / "scripts"
LARGE = 1_000_000  # tokens: what agents are told of the window, so that none compacts on its own


@dataclass(frozen=True)
class Client:
    """One client. `window`: the upstream's, in tokens: its system prompt and tools, a few pages, and not the book."""

    command: Sequence[str]
    window: int
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    streams: bool = True

    @property
    def missing(self) -> str | None:
        """Why it cannot run here, or None."""
        program = self.command[0]
        if not Path(program).exists() and shutil.which(program) is None:
            return f"{Path(program).name} is not installed: python -m tests.e2e.install"
        modules = install.folder() / "node" / "node_modules" / "openai"
        if program == "node" and not modules.exists():
            return "the Node SDK is not installed: python -m tests.e2e.install"
        return None


@dataclass(frozen=True)
class Ran:
    """How a run ended."""

    status: int
    output: str


async def run(client: Client, base_url: str, question: str, home: Path, within_s: float) -> Ran:
    """Run a client to its end. One that takes longer than `within_s` seconds is stopped; its status is negative."""
    origin = base_url.removesuffix("/v1")
    filled = {"base_url": base_url, "origin": origin, "home": str(home), "model": MODEL, "question": question}
    _write(client.files, home, filled)
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "TERM")}
    ours = {"HOME": str(home), "OPENAI_BASE_URL": base_url, "OPENAI_API_KEY": "sk-test", "NO_COLOR": "1", "CI": "1"}
    process = await asyncio.create_subprocess_exec(
        *(_fill(part, filled) for part in client.command),
        cwd=home,
        env=kept | ours | {name: _fill(value, filled) for name, value in client.env.items()},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), within_s)
    except TimeoutError:
        os.killpg(process.pid, signal.SIGKILL)
        return Ran(-signal.SIGKILL, f"stopped after {within_s:.0f} s")
    assert process.returncode is not None
    return Ran(process.returncode, output.decode(errors="replace"))


def _write(files: Mapping[str, str], home: Path, values: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_fill(text, values))


def _fill(text: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        text = text.replace("{" + name + "}", value)
    return text


def _script(name: str, mode: str) -> Client:
    return Client(
        [str(install.python()), str(SCRIPTS / f"{name}.py"), mode, "{question}"], 16_000, streams=mode == "stream"
    )


def _node(mode: str) -> Client:
    modules = str(install.folder() / "node" / "node_modules")
    command = ["node", str(SCRIPTS / "sdk_node.cjs"), mode, "{question}"]
    return Client(command, 16_000, {"NODE_PATH": modules}, streams=mode == "stream")


def _agent(
    name: str, arguments: Sequence[str], window: int, env: Mapping[str, str], files: Mapping[str, str]
) -> Client:
    return Client([str(install.node_bin(name)), *arguments], window, env, files)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


_OPENCODE = {
    "provider": {
        "trimtab": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": "{base_url}", "apiKey": "sk-test"},
            "models": {MODEL: {"limit": {"context": LARGE, "output": 2000}}},
        }
    },
    "compaction": {"auto": False},
    "permission": {"*": "allow"},
    "autoupdate": False,
}
_PI_MODEL = {"id": MODEL, "contextWindow": LARGE, "maxTokens": 2000}
_PI = {
    "providers": {
        "trimtab": {
            "baseUrl": "{base_url}",
            "api": "openai-completions",
            "apiKey": "sk-test",
            "models": [_PI_MODEL],
        }
    }
}
_CONTINUE = """\
name: tests
version: 1.0.0
schema: v1
models:
  - name: strict
    provider: openai
    model: {model}
    apiBase: {base_url}
    apiKey: sk-test
    roles: [chat]
    capabilities: [tool_use]
    defaultCompletionOptions: {contextLength: 1000000, maxTokens: 2000}
"""
_QWEN = {
    "general": {"disableAutoUpdate": True},
    "telemetry": {"enabled": False},
    "model": {"chatCompression": {"contextPercentageThreshold": 0}},
}

CLIENTS: dict[str, Client] = {
    "openai-python": _script("sdk_python", "whole"),
    "openai-python, streaming": _script("sdk_python", "stream"),
    "openai-node": _node("whole"),
    "openai-node, streaming": _node("stream"),
    "pydantic-ai": _script("pydantic_ai_agent", "whole"),
    "pydantic-ai, streaming": _script("pydantic_ai_agent", "stream"),
    "langchain-openai": _script("langchain_agent", "whole"),
    "langchain-openai, streaming": _script("langchain_agent", "stream"),
    "openai-agents": _script("openai_agents_run", "whole"),
    "openai-agents, streaming": _script("openai_agents_run", "stream"),
    "opencode": _agent(
        "opencode",
        ["run", "--model", "trimtab/{model}", "{question}"],
        26_000,
        {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"},
        {"opencode.json": _json(_OPENCODE)},
    ),
    "qwen-code": _agent(
        "qwen",
        ["--auth-type", "openai", "-m", "{model}", "-y", "-p", "{question}"],
        36_000,
        {"OPENAI_MODEL": MODEL},
        {".qwen/settings.json": _json(_QWEN)},
    ),
    "pi": _agent(
        "pi",
        ["--provider", "trimtab", "--model", MODEL, "-p", "{question}"],
        18_000,
        {"PI_OFFLINE": "1"},
        {
            ".pi/agent/models.json": _json(_PI),
            ".pi/agent/settings.json": _json({"compaction": {"enabled": False}}),
        },
    ),
    "continue": _agent(
        "cn",
        ["--config", "{home}/cn.yaml", "--auto", "-p", "{question}"],
        18_000,
        {"CONTINUE_TELEMETRY_ENABLED": "0", "CONTINUE_METRICS_ENABLED": "0"},
        {"cn.yaml": _CONTINUE},
    ),
}
