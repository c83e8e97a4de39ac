"""Anthropic's SDK in the plainest loop that an agent can be: all results of an answer in one message."""

import os
import subprocess
import sys

import anthropic

client = anthropic.Anthropic(base_url=os.environ["ANTHROPIC_BASE_URL"], api_key="sk-test", max_retries=0)
schema = {"type": "object", "properties": {"command": {"type": "string"}}}
tools = [{"name": "run", "description": "Run a shell command.", "input_schema": schema}]
messages = [{"role": "user", "content": sys.argv[1]}]
while True:
    with client.messages.stream(model="strict-model", max_tokens=500, messages=messages, tools=tools) as stream:
        answer = stream.get_final_message()
    messages.append({"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in answer.content]})
    calls = [block for block in answer.content if block.type == "tool_use"]
    if not calls:
        print(answer.content[-1].text)
        break
    results = []
    for call in calls:
        done = subprocess.run(call.input["command"], shell=True, capture_output=True, text=True, check=False)
        results.append({"type": "tool_result", "tool_use_id": call.id, "content": done.stdout})
    messages.append({"role": "user", "content": results})
