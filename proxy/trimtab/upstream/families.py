"""What is particular to a model family: three tables, by the model's name.

An upstream hides most differences between models. These it passes on as errors, so a request that this proxy writes
itself, or adds a message to, has to respect them.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from trimtab.upstream.settings import UpstreamSettings

Role = Literal["system", "user"]

# Chat templates that raise on a system message that is not the first, or demand that user and assistant alternate, as
# published on the model cards: Mistral, Gemma, Llama 2, Qwen 3.5 and later, Phi.
_ONE_SYSTEM_MESSAGE = re.compile(
    r"(?:^|[/:._-])(?:mi[sx]tral|ministral|magistral|devstral|codestral|pixtral|gemma|llama-?2|qwen|qwq|phi|zephyr)",
    re.IGNORECASE,
)
# OpenAI's API reference: `max_tokens` is deprecated and not compatible with o-series models. GPT-5 and later answer
# "Unsupported parameter: 'max_tokens' ... Use 'max_completion_tokens' instead" too.
_REFUSES_MAX_TOKENS = re.compile(r"(?:^|[/:])(?:o\d|gpt-(?:[5-9]|\d\d))(?![\d])", re.IGNORECASE)


def summary_role(upstream: UpstreamSettings, model: str) -> Role:
    """The role of the message in the gap, which holds the summary or the note: as configured, else "user" for families
    whose chat template refuses a second system message, and "system" for all others."""
    return upstream.summary_role if upstream.summary_role != "auto" else _role_by_family(model)


def output_field(model: str) -> str:
    """The field that limits the output of a call of our own: `max_tokens`, which every server knows, except for models
    that refuse it. A client's own request keeps the field it came with."""
    return "max_completion_tokens" if _REFUSES_MAX_TOKENS.search(model) else "max_tokens"


# Anthropic's release notes of Fable 5.1, Opus 5.5 and Sonnet 5.5: thinking is bound to all that came before it.
_CLAUDE = re.compile(r"claude-(fable|opus|sonnet|haiku)-(\d{1,2})(?:[.-](\d{1,2}))?(?!\d)", re.IGNORECASE)
_FIRST_TO_BIND = {"fable": (5, 1), "opus": (5, 5), "sonnet": (5, 5), "haiku": (5, 5)}


@lru_cache(maxsize=1024)
def binds_thinking(model: str) -> bool:
    """True for models whose thinking is valid only after the very messages it was made after."""
    found = _CLAUDE.search(model)
    if found is None:
        return False
    return (int(found[2]), int(found[3] or 0)) >= _FIRST_TO_BIND[found[1].lower()]


@lru_cache(maxsize=1024)
def _role_by_family(model: str) -> Role:
    return "user" if _ONE_SYSTEM_MESSAGE.search(model) else "system"
