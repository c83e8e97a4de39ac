"""Which `[models."…"]` table answers for a name, and what the environment states."""

import msgspec
import pytest

from trimtab.errors import ConfigError
from trimtab.limits.settings import LimitsSettings, ModelSettings, from_environment, settings_for

KEYS = ["*", "gpt-4*", "gpt-4o*", "gpt-4o", "gpt-4o-2024*", "gpt-5*", "gpt-5.9-custom", "Qwen/*"]
MODELS = {key: ModelSettings(context_size=1000 + i) for i, key in enumerate(KEYS)}

ANSWERS = [
    ("gpt-4o", "gpt-4o"),
    ("gpt-4o-mini", "gpt-4o*"),
    ("gpt-4-turbo", "gpt-4*"),
    ("gpt-4o-2024-08-06", "gpt-4o-2024*"),
    ("gpt-5.9-custom", "gpt-5.9-custom"),
    ("gpt-5.1", "gpt-5*"),
    ("openai/gpt-4o", "gpt-4o"),
    ("ft:gpt-4o:org::id", "gpt-4o"),
    ("qwen/qwen3-8b", "Qwen/*"),
    ("llama", "*"),
]


@pytest.mark.parametrize(("name", "key"), ANSWERS)
def test_the_most_specific_key_answers(name: str, key: str) -> None:
    assert settings_for(MODELS, name) == (key, MODELS[key])


def test_nothing_answers_where_nothing_matches() -> None:
    assert settings_for({}, "gpt-4o") is None
    assert settings_for({"gpt-4o": ModelSettings()}, "gpt-4o-mini") is None


def test_every_key_is_optional_and_prices_are_a_table() -> None:
    text = '[models."gpt-4*"]\ncontext_size = 128_000\nprices = { input = 2.5, output = 10 }\n'
    models = msgspec.toml.decode(text, type=dict[str, dict[str, ModelSettings]])["models"]
    assert models["gpt-4*"].context_size == 128_000
    assert models["gpt-4*"].prices is not None
    assert models["gpt-4*"].prices.output == 10.0


@pytest.mark.parametrize("text", ["context_size = 0", "budget = -1", "context_size = 1.5", "contextsize = 1"])
def test_a_wrong_value_or_key_is_refused(text: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.toml.decode(text, type=ModelSettings)


def test_the_limits_table_has_defaults() -> None:
    assert msgspec.toml.decode("first_wait_s = 0.1", type=LimitsSettings).discover


STATED = [
    ({}, ModelSettings()),
    ({"LLM_CONTEXT_SIZE": ""}, ModelSettings()),
    ({"LLM_CONTEXT_SIZE": " 32768 "}, ModelSettings(context_size=32_768)),
    ({"LLM_CONTEXT_SIZE": "128_000"}, ModelSettings(context_size=128_000)),
    ({"LLM_MAX_OUTPUT_TOKENS": "4096", "OTHER": "x"}, ModelSettings(max_output_tokens=4_096)),
]


@pytest.mark.parametrize(("environ", "stated"), STATED)
def test_what_the_environment_states(environ: dict[str, str], stated: ModelSettings) -> None:
    assert from_environment(environ) == stated


@pytest.mark.parametrize("text", ["128k", "-1", "0", "1e5", "12.5", "none", "²", "9" * 40])
def test_a_bad_value_in_the_environment_is_refused_by_name(text: str) -> None:
    with pytest.raises(ConfigError, match="LLM_CONTEXT_SIZE must be a positive number of tokens"):
        from_environment({"LLM_CONTEXT_SIZE": text})
