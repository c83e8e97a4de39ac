"""pydantic-ai with one tool. `stream` as first argument."""

import asyncio
import os
import sys
from pathlib import Path

from pydantic_ai import Agent, UsageLimits
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

mode, question = sys.argv[1:3]
model = OpenAIChatModel("strict-model", provider=OpenAIProvider(base_url=os.environ["OPENAI_BASE_URL"], api_key="x"))
agent = Agent(model, system_prompt="You are a careful reader.")


@agent.tool_plain
def read_page(path: str) -> str:
    """Read a page."""
    return Path(path).read_text()


async def main() -> None:
    limits = UsageLimits(request_limit=100)
    if mode != "stream":
        print((await agent.run(question, usage_limits=limits)).output)
        return
    async with agent.run_stream(question, usage_limits=limits) as run:
        print(await run.get_output())


asyncio.run(main())
