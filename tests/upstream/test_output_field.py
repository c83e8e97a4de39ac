"""Which name the bound of the output goes by."""

from __future__ import annotations

import pytest

from trimtab.upstream.output_field import output_field


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
