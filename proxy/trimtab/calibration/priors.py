"""The factor to begin with, by model family, before an upstream has reported any usage.

Estimates are fitted on o200k, so OpenAI's models since gpt-4o stand at 1. The others are the 80th percentile
of (family's tokens / o200k tokens) over recorded agent runs (docs/calibration.md): one request too early for
a needless clearing is cheaper than one refused. For Claude no tokenizer since Claude 2 is published; what its
API counts runs 1.3-1.7 times o200k. One response replaces a prior.
"""

from __future__ import annotations

import re

UNKNOWN = 1.10

FAMILIES: tuple[tuple[re.Pattern[str], float], ...] = tuple(
    (re.compile(pattern), factor)
    for pattern, factor in (
        (r"claude", 1.50),
        (r"gpt-oss|gpt-4o|gpt-4\.|gpt-[5-9]|chatgpt|codex|\bo[134](-|$)", 1.00),
        (r"gpt-4(?![o.])|gpt-3\.5|gpt-35", 1.02),
        (r"qwen|qwq", 1.15),
        (r"llama", 1.03),
        (r"deepseek", 1.06),
        (r"gemma|gemini", 1.20),
        (r"mi[sx]tral|ministral|codestral|devstral|magistral|pixtral", 1.20),
    )
)


def prior(model: str) -> float:
    """The factor, tokens per estimated token, for a model nothing has been heard from. By name, case aside;
    of a distilled model (`deepseek-r1-distill-llama`) the last family named is the tokenizer's."""
    name = model.lower()
    named = [(m.start(), factor) for pattern, factor in FAMILIES for m in pattern.finditer(name)]
    return max(named)[1] if named else UNKNOWN
