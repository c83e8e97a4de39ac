"""openai-agents with its default API, the Responses API."""

import asyncio
import subprocess
import sys

from agents import Agent, Runner, function_tool, set_tracing_disabled

set_tracing_disabled(True)


@function_tool
def run(command: str) -> str:
    """Run a shell command."""
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=False).stdout


async def main() -> None:
    agent = Agent(name="reader", instructions="You are a careful reader.", model="strict-model", tools=[run])
    print((await Runner.run(agent, sys.argv[1], max_turns=100)).final_output)


asyncio.run(main())
