"""openai-agents with the chat-completions API. `stream` as first argument."""

import asyncio
import sys
from pathlib import Path

from agents import Agent, Runner, function_tool, set_default_openai_api, set_tracing_disabled

mode, question = sys.argv[1:3]
set_default_openai_api("chat_completions")
set_tracing_disabled(True)


@function_tool
def read_page(path: str) -> str:
    """Read a page."""
    return Path(path).read_text()


async def main() -> None:
    agent = Agent(name="reader", instructions="You are a careful reader.", model="strict-model", tools=[read_page])
    if mode != "stream":
        print((await Runner.run(agent, question, max_turns=100)).final_output)
        return
    run = Runner.run_streamed(agent, question, max_turns=100)
    async for _ in run.stream_events():
        pass
    print(run.final_output)


asyncio.run(main())
