"""Where a family starts."""

import pytest

from trimtab.calibration.priors import UNKNOWN, prior

PRIORS = [
    ("gpt-4o", 1.0),
    ("openai/gpt-5.1-codex", 1.0),
    ("o3-mini", 1.0),
    ("gpt-oss-120b", 1.0),
    ("gpt-4-turbo", 1.02),
    ("gpt-3.5-turbo", 1.02),
    ("anthropic.claude-sonnet-4-5-20250929-v1:0", 1.5),
    ("Qwen/Qwen3-8B", 1.15),
    ("meta-llama/Llama-3.3-70B-Instruct", 1.03),
    ("deepseek-r1-distill-llama-70b", 1.03),
    ("deepseek-chat", 1.06),
    ("gemini-2.5-pro", 1.2),
    ("mistral-large-latest", 1.2),
    ("mixtral-8x7b", 1.2),
    ("something-else", UNKNOWN),
    ("", UNKNOWN),
]


@pytest.mark.parametrize(("model", "factor"), PRIORS)
def test_prior(model: str, factor: float) -> None:
    assert prior(model) == factor
