"""Our own endpoints, described, and tried by schemathesis with what the description allows and what it does not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings

from tests.fuzz.house import housed
from tests.support.running import Running

TEXT, COUNT = {"type": "string"}, {"type": "integer"}
MESSAGE = {
    "type": "object",
    "required": ["role"],
    "properties": {
        "role": {"enum": ["system", "developer", "user", "assistant", "tool", "function"]},
        "content": {"anyOf": [{"type": "string"}, {"type": "null"}, {"type": "array", "items": {}}]},
        "tool_call_id": {"type": "string"},
        "tool_calls": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "id": {"type": "string"},
                    "function": {
                        "type": "object",
                        "properties": {"name": {"type": "string"}, "arguments": {"type": "string"}},
                    },
                },
            },
        },
        "pinned": {"type": "boolean"},
    },
}
REQUEST = {
    "type": "object",
    "required": ["model", "messages"],
    "properties": {
        "model": {"type": "string"},
        "messages": {"type": "array", "items": MESSAGE},
        "stream": {"type": "boolean"},
        "max_tokens": {"type": "integer"},
        "tools": {"type": "array", "items": {}},
        "context_management": {
            "type": "object",
            "properties": {
                "edits": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "type": {"enum": ["clear_tool_uses_20250919", "x"]},
                            "keep": {"type": "object", "properties": {"type": {"enum": ["tool_uses"]}, "value": COUNT}},
                        },
                    },
                }
            },
        },
    },
}
_CONTENT = {"anyOf": [{"type": "string"}, {"type": "null"}, {"type": "array", "items": {}}]}
_TEXT_PART = {
    "type": "object",
    "properties": {"type": {"enum": ["text", "input_text", "output_text", "image"]}, "text": TEXT},
}
ITEM = {
    "type": "object",
    "properties": {
        "type": {"enum": ["message", "reasoning", "function_call", "function_call_output", "custom_tool_call", "x"]},
        "role": {"enum": ["system", "developer", "user", "assistant"]},
        "content": {"anyOf": [_CONTENT, {"type": "array", "items": _TEXT_PART}]},
        "call_id": {"enum": ["a", "b"]},
        "arguments": TEXT,
        "output": _CONTENT,
        "pinned": {"type": "boolean"},
    },
}
BLOCK = {
    "type": "object",
    "properties": {
        "type": {"enum": ["text", "tool_use", "tool_result", "thinking", "redacted_thinking", "document", "x"]},
        "text": TEXT,
        "id": {"enum": ["a", "b"]},
        "tool_use_id": {"enum": ["a", "b"]},
        "input": {},
        "content": _CONTENT,
        "cache_control": {},
    },
}
RESPONSES = {
    "type": "object",
    "required": ["model", "input"],
    "properties": {
        "model": TEXT,
        "input": {"anyOf": [{"type": "string"}, {"type": "array", "items": ITEM}]},
        "instructions": {},
        "stream": {"type": "boolean"},
        "max_output_tokens": COUNT,
    },
}
MESSAGES = {
    "type": "object",
    "required": ["model", "messages", "max_tokens"],
    "properties": {
        "model": TEXT,
        "messages": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["role"],
                "properties": {
                    "role": {"enum": ["user", "assistant", "system"]},
                    "content": {"anyOf": [{"type": "string"}, {"type": "array", "items": BLOCK}]},
                },
            },
        },
        "system": {},
        "stream": {"type": "boolean"},
        "max_tokens": COUNT,
        "thinking": {"type": "object", "properties": {"budget_tokens": COUNT}},
    },
}
ANY = {"default": {"description": ""}}
HEADERS = [
    {"name": "x-trimtab-hint", "in": "header", "schema": {"enum": ["general", "react_iteration", "nope"]}},
    {"name": "x-trimtab-profile", "in": "header", "schema": {"enum": ["replan", "analysis", "nope"]}},
    {"name": "x-trimtab-observe", "in": "header", "schema": {"enum": ["true", "false"]}},
]


def post(summary: str, schema: dict[str, Any] = REQUEST) -> dict[str, Any]:
    body = {"content": {"application/json": {"schema": schema}}}
    return {
        "post": {
            "summary": summary,
            "parameters": HEADERS,
            "requestBody": body,
            "responses": {"default": {"description": ""}},
        }
    }


def get(summary: str) -> dict[str, Any]:
    return {"get": {"summary": summary, "responses": ANY}}


DESCRIPTION = {
    "openapi": "3.1.0",
    "info": {"title": "Trimtab", "version": "1"},
    "paths": {
        "/v1/chat/completions": post("managed"),
        "/v1/responses": post("managed", RESPONSES),
        "/v1/messages": post("managed", MESSAGES),
        "/v1/context/plan": post("what would be done"),
        "/v1/models": get("passed through"),
        "/healthz/live": get("the process runs"),
        "/healthz/ready": get("new requests are welcome"),
        "/metrics": get("for Prometheus"),
    },
}
EXAMPLES = int(os.environ.get("TRIMTAB_FUZZ", "0")) // 20 or 25
schema = schemathesis.openapi.from_dict(DESCRIPTION)
SMALL = '[models."*"]\ncontext_size = 2048\nmax_output_tokens = 256\n[server]\nmax_body_mb = 1\n'


@pytest.fixture(scope="module")
def house() -> Iterator[Running]:
    with housed(SMALL) as proxy:
        yield proxy
        assert '"level":"error"' not in proxy.log.getvalue()
        assert "fail_open" not in proxy.log.getvalue()
        assert proxy.parts.load.requests == 0


@pytest.mark.timeout(3600)
@schema.parametrize()
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
def test_any_call_gets_an_answer_or_a_typed_error(case: Any, house: Running) -> None:
    answer = case.call(base_url=house.url)
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400 and answer.content:
        body = answer.json()
        assert body["error"]["type"]
        assert body["error"]["message"]
        if case.path == "/v1/messages":
            assert body["type"] == "error"
        else:
            assert {"param", "code"} <= set(body["error"])
