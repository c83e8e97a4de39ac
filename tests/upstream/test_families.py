"""The tables of model families: the role in the gap, the field that limits the output."""

from __future__ import annotations

from typing import Any

import pytest

from trimtab.upstream.families import binds_thinking, output_field, summary_role
from trimtab.upstream.settings import UpstreamSettings


@pytest.mark.parametrize(
    ("model", "field"),
    [
        ("o1", "max_completion_tokens"),
        ("o3-mini-2025-01-31", "max_completion_tokens"),
        ("openai/o4-mini", "max_completion_tokens"),
        ("gpt-5", "max_completion_tokens"),
        ("GPT-5.1-codex", "max_completion_tokens"),
        ("azure/gpt-5-nano", "max_completion_tokens"),
        ("gpt-4o", "max_tokens"),
        ("gpt-4.1-mini", "max_tokens"),
        ("gpt-3.5-turbo", "max_tokens"),
        ("gpt-oss-120b", "max_tokens"),
        ("olmo-2", "max_tokens"),
        ("qwen3", "max_tokens"),
        ("claude-opus-4-5", "max_tokens"),
        ("yi-o1", "max_tokens"),
        ("", "max_tokens"),
    ],
)
def test_only_the_models_that_refuse_the_old_name_get_the_new_one(model: str, field: str) -> None:
    assert output_field(model) == field


def upstream(role: Any) -> UpstreamSettings:
    return UpstreamSettings(name="up", base_url="http://localhost/v1", summary_role=role)


@pytest.mark.parametrize(
    ("model", "role"),
    [
        ("mistral-large-latest", "user"),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "user"),
        ("ministral-8b", "user"),
        ("openrouter/mistralai/devstral-small", "user"),
        ("gemma-3-27b-it", "user"),
        ("google/gemma-2-9b", "user"),
        ("llama-2-70b-chat", "user"),
        ("meta-llama/Llama2-7b", "user"),
        ("Qwen/Qwen3.5-397B", "user"),
        ("qwq:32b", "user"),
        ("phi-4", "user"),
        ("zephyr-7b", "user"),
        ("gpt-4o", "system"),
        ("claude-sonnet-4-5", "system"),
        ("llama-3.1-8b-instruct", "system"),
        ("deepseek-chat", "system"),
        ("kimi-k2", "system"),
        ("glm-4.6", "system"),
        ("gemini-2.5-pro", "system"),
        ("dolphin-mixtral", "user"),
        ("sphinx", "system"),
        ("", "system"),
    ],
)
def test_the_family_decides_where_nothing_is_configured(model: str, role: str) -> None:
    assert summary_role(upstream("auto"), model) == role


@pytest.mark.parametrize("role", ["system", "user"])
@pytest.mark.parametrize("model", ["gemma-3", "gpt-4o"])
def test_what_is_configured_holds_for_every_model(role: str, model: str) -> None:
    assert summary_role(upstream(role), model) == role


@pytest.mark.parametrize(
    ("model", "binds"),
    [
        ("claude-opus-5-5", True),
        ("claude-opus-5.5", True),
        ("anthropic/claude-sonnet-5-5-20270101", True),
        ("claude-sonnet-6", True),
        ("claude-fable-5-1", True),
        ("claude-fable-5", False),
        ("claude-opus-5", False),
        ("claude-opus-5-20260501", False),
        ("claude-opus-4-8", False),
        ("claude-sonnet-4-5-20250929", False),
        ("gpt-5", False),
        ("", False),
    ],
)
def test_the_models_that_bind_their_thinking(model: str, binds: bool) -> None:
    assert binds_thinking(model) is binds
