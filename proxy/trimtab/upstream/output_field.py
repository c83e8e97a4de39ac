"""The field that bounds the output of a call of our own: `max_tokens`, which every server knows, but for the models
that refuse it.

OpenAI's API reference: `max_tokens` is deprecated and not compatible with o-series models; the same error,
"Unsupported parameter: 'max_tokens' ... Use 'max_completion_tokens' instead", comes from GPT-5 and later. A client's
own request keeps the field it came with.
"""

from __future__ import annotations

import re

_REFUSES_MAX_TOKENS = re.compile(r"(?:^|[/:])(?:o\d|gpt-(?:[5-9]|\d\d))(?![\d])", re.IGNORECASE)


def output_field(model: str) -> str:
    """The name to send the bound under."""
    return "max_completion_tokens" if _REFUSES_MAX_TOKENS.search(model) else "max_tokens"
