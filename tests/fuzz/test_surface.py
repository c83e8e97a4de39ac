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
ANY = {"default": {"description": ""}}
HEADERS = [
    {"name": "x-trimtab-hint", "in": "header", "schema": {"enum": ["general", "react_iteration", "nope"]}},
    {"name": "x-trimtab-profile", "in": "header", "schema": {"enum": ["replan", "analysis", "nope"]}},
    {"name": "x-trimtab-observe", "in": "header", "schema": {"enum": ["true", "false"]}},
]


def post(summary: str) -> dict[str, Any]:
    body = {"content": {"application/json": {"schema": REQUEST}}}
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
        error = answer.json()["error"]
        assert error["type"]
        assert error["message"]
        assert {"param", "code"} <= set(error)
