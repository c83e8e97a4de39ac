"""Which chat templates refuse a second system message, so that a summary has to come as a user's message.

A table of model families whose published templates raise on a system message that is not the first, or demand that
user and assistant alternate (Mistral, Gemma, Llama 2, Qwen 3.5 and later, Phi); everything else takes one.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from trimtab.upstream.settings import UpstreamSettings

Role = Literal["system", "user"]

_STRICT = re.compile(
    r"(?:^|[/:._-])(?:mi[sx]tral|ministral|magistral|devstral|codestral|pixtral|gemma|llama-?2|qwen|qwq|phi|zephyr)",
    re.IGNORECASE,
)


def summary_role(upstream: UpstreamSettings, model: str) -> Role:
    """The role of the message that stands for what was taken out: as configured, else by the model's family."""
    return upstream.summary_role if upstream.summary_role != "auto" else _by_family(model)


@lru_cache(maxsize=1024)
def _by_family(model: str) -> Role:
    return "user" if _STRICT.search(model) else "system"
