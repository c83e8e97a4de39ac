"""An agent loop written by hand over the OpenAI SDK: ask, run the tools, ask again. `stream` as first argument."""

import json
import sys
from pathlib import Path

from openai import OpenAI

mode, question = sys.argv[1:3]
client = OpenAI(max_retries=2)
schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
tools = [{"type": "function", "function": {"name": "read_page", "description": "Read a page.", "parameters": schema}}]
messages = [{"role": "system", "content": "You are a careful reader."}, {"role": "user", "content": question}]


def ask():
    if mode != "stream":
        return client.chat.completions.create(model="strict-model", messages=messages, tools=tools).choices[0].message
    with client.chat.completions.stream(model="strict-model", messages=messages, tools=tools) as stream:
        for _ in stream:
            pass
        return stream.get_final_completion().choices[0].message


while (message := ask()).tool_calls:
    messages.append(message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"}))
    for call in message.tool_calls:
        page = Path(json.loads(call.function.arguments)["path"]).read_text()
        messages.append({"role": "tool", "tool_call_id": call.id, "content": page})
print(message.content)
