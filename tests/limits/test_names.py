"""A name's other forms: one thing taken off at a time, never a piece of the family's own name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.limits.names import forms

RESOLVES = [
    ("openai/gpt-4o", "gpt-4o", "prefix"),
    ("models/gemini-2.5-pro", "gemini-2.5-pro", "prefix"),
    ("openrouter/openai/gpt-4o-mini", "gpt-4o-mini", "prefix, prefix"),
    ("gpt-4o-2024-08-06", "gpt-4o", "dated suffix"),
    ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5", "dated suffix"),
    ("openai/gpt-4o-2024-08-06", "gpt-4o", "prefix, dated suffix"),
    ("qwen/qwen3-coder:free", "qwen3-coder", "prefix, route"),
    ("llama3.1:latest", "llama3.1", "route"),
    ("claude-3-5-sonnet-latest", "claude-3-5-sonnet", "-latest"),
    ("ft:gpt-4o-mini-2024-07-18:org::id", "ft:gpt-4o-mini-2024-07-18", "fine-tune"),
    ("ft:gpt-4o-mini-2024-07-18:org::id", "gpt-4o-mini-2024-07-18", "fine-tune base"),
    ("claude-3-5-sonnet@20240620", "claude-3-5-sonnet-20240620", "date written with @"),
    ("gemini-1.5-pro@001", "gemini-1.5-pro", "@version"),
    ("jp.anthropic.claude-x-20250101-v1:0", "claude-x", "region, version suffix, vendor, dated suffix"),
    ("anthropic/claude-3.5-sonnet", "claude-3-5-sonnet", "prefix, dot for hyphen"),
    ("arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-x", "claude-x", None),
    ("projects/p/locations/l/publishers/google/models/gemini-2.5-pro", "gemini-2.5-pro", "resource name"),
    ("GPT-4o", "gpt-4o", ""),
    ("openai:gpt-4o", "gpt-4o", "prefix before a colon"),
    ("github:copilot:claude-sonnet-4", "claude-sonnet-4", "prefix before a colon, prefix before a colon"),
    ("ollama:qwen/qwen3-coder:free", "qwen3-coder", None),
]

STAYS_ITSELF = [
    "gpt-4o-mini",
    "gpt-4o-custom",
    "my-gpt-4o",
    "mistral-large-2402",
    "gpt-4-0613",
    "acme/gpt-4o",
    "llama3.1:8b",
    "qwen:7b",
]


@pytest.mark.parametrize(("name", "form", "how"), RESOLVES)
def test_a_name_has_the_form_and_says_what_was_taken_off(name: str, form: str, how: str | None) -> None:
    found = dict(forms(name))
    assert form in found
    assert how is None or found[form] == how


@pytest.mark.parametrize("name", STAYS_ITSELF)
def test_what_belongs_to_the_name_stays(name: str) -> None:
    assert list(forms(name)) == [(name, "")]


@given(st.text(alphabet="abft:@/.-0123456789v", max_size=80))
def test_any_name_has_few_forms_the_name_first_none_twice(name: str) -> None:
    found = [form for form, _ in forms(name)]
    assert found[0] == name
    assert len(found) == len(set(found)) <= 32
