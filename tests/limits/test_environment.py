"""LLM_CONTEXT_SIZE and LLM_MAX_OUTPUT_TOKENS."""

import pytest

from trimtab.errors import ConfigError
from trimtab.limits.environment import from_environment
from trimtab.limits.settings import ModelSettings

GOOD = [
    ({}, ModelSettings()),
    ({"LLM_CONTEXT_SIZE": ""}, ModelSettings()),
    ({"LLM_CONTEXT_SIZE": " 32768 "}, ModelSettings(context_size=32_768)),
    ({"LLM_CONTEXT_SIZE": "128_000"}, ModelSettings(context_size=128_000)),
    ({"LLM_MAX_OUTPUT_TOKENS": "4096", "OTHER": "x"}, ModelSettings(max_output_tokens=4_096)),
]


@pytest.mark.parametrize(("environ", "stated"), GOOD)
def test_what_the_environment_states(environ: dict[str, str], stated: ModelSettings) -> None:
    assert from_environment(environ) == stated


@pytest.mark.parametrize("text", ["128k", "-1", "0", "1e5", "12.5", "none", "²", "9" * 40])
def test_a_bad_value_is_refused_by_name(text: str) -> None:
    with pytest.raises(ConfigError, match="LLM_CONTEXT_SIZE must be a positive number of tokens"):
        from_environment({"LLM_CONTEXT_SIZE": text})
