"""openai-agents with a conversation that lives in the proxy: MODE is how it is named, FILE has one input a line."""

import asyncio
import subprocess
import sys
from pathlib import Path

from agents import Agent, OpenAIConversationsSession, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

set_tracing_disabled(True)


@function_tool
def run(command: str) -> str:
    """Run a shell command."""
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=False).stdout


async def main(mode: str, inputs: list[str]) -> None:
    agent = Agent(name="reader", instructions="You are a careful reader.", model="strict-model", tools=[run])
    known = {}
    if mode == "conversation":
        known = {"conversation_id": (await AsyncOpenAI().conversations.create()).id}
    elif mode == "session":
        known = {"session": OpenAIConversationsSession()}
    for text in inputs:
        if mode == "previous":
            result = await Runner.run(agent, text, max_turns=100, auto_previous_response_id=True, **known)
            known = {"previous_response_id": result.last_response_id}
        else:
            result = await Runner.run(agent, text, max_turns=100, **known)
    print(result.final_output)


asyncio.run(main(sys.argv[1], Path(sys.argv[2]).read_text().splitlines()))
