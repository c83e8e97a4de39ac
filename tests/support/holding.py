"""A proxy with stored conversations before a model that holds nothing, and the OpenAI SDK as its client.

async with holding(tmp_path) as stage:
    await stage.client().responses.create(model="m", input="hello")
assert stage.model.seen[-1] == ["user: hello"]
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI

from tests.support.running import Running, running
from tests.support.scripted import ScriptedUpstream
from tests.support.stateless import StatelessModel

HEADER = "x-trimtab-conversation"


@dataclass
class Holding:
    """The parts."""

    proxy: Running
    model: StatelessModel
    upstream: ScriptedUpstream
    clients: AsyncExitStack

    def client(self, key: str = "sk-one") -> AsyncOpenAI:
        client = AsyncOpenAI(base_url=self.proxy.base_url, api_key=key, max_retries=0)
        self.clients.push_async_callback(client.close)
        return client


@asynccontextmanager
async def holding(path: Path, toml: str = "", **model: Any) -> AsyncIterator[Holding]:
    scripted = StatelessModel(**model)
    table = f'[conversations]\nstore = "sqlite:///{path}/c.db"\n'
    async with (
        ScriptedUpstream(scripted) as upstream,
        running(upstream.base_url, table + toml) as proxy,
        AsyncExitStack() as clients,
    ):
        yield Holding(proxy, scripted, upstream, clients)


async def chat(client: AsyncOpenAI, text: str, name: str = "trip", **more: Any) -> Any:
    headers = {HEADER: name} | more.pop("extra_headers", {})
    messages = [{"role": "user", "content": text}]
    return await client.chat.completions.with_raw_response.create(
        model="m", messages=messages, extra_headers=headers, **more
    )
