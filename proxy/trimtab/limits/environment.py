"""The two variables of the environment that state limits for every model: LLM_CONTEXT_SIZE and
LLM_MAX_OUTPUT_TOKENS, tokens. Read once, at start; a value that is not a positive number is refused there,
because a limit silently ignored is found out in production.
"""

from __future__ import annotations

from collections.abc import Mapping

from trimtab.errors import ConfigError
from trimtab.limits.settings import ModelSettings


def from_environment(environ: Mapping[str, str]) -> ModelSettings:
    """What the environment states. Raises ConfigError naming the variable and what it should look like."""
    return ModelSettings(
        context_size=_tokens(environ, "LLM_CONTEXT_SIZE"),
        max_output_tokens=_tokens(environ, "LLM_MAX_OUTPUT_TOKENS"),
    )


def _tokens(environ: Mapping[str, str], name: str) -> int | None:
    text = environ.get(name, "")
    if not text.strip():
        return None
    digits = text.strip().replace("_", "").replace(",", "")
    if not (digits.isascii() and digits.isdigit() and 0 < int(digits) < 10**10):
        raise ConfigError(f"{name} must be a positive number of tokens, such as 128000, but is {text[:40]!r}")
    return int(digits)
