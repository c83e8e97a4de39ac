"""langchain-openai under langgraph's prebuilt agent. `stream` as first argument."""

import asyncio
import sys
import warnings
from pathlib import Path

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

warnings.simplefilter("ignore")
from langgraph.prebuilt import create_react_agent  # noqa: E402

mode, question = sys.argv[1:3]


@tool
def read_page(path: str) -> str:
    """Read a page."""
    return Path(path).read_text()


async def main() -> None:
    model = ChatOpenAI(model="strict-model", streaming=mode == "stream", use_responses_api=False)
    agent = create_react_agent(model, [read_page], prompt="You are a careful reader.")
    task = {"messages": [("user", question)]}
    result = await agent.ainvoke(task, {"recursion_limit": 200})
    print(result["messages"][-1].content)


asyncio.run(main())
