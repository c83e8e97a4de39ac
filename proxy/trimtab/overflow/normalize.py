"""The form of a sentence that all patterns of this package expect, and how those patterns are put together.

An upstream's sentence is brought into one form before `wordings`, `vetoes` and `figures` read it: lower case, single
spaces, no quotes, no links, numbers as plain digits, and nothing that the client itself wrote.

    The `Prompt` has 213,462 tokens, see https://host/docs    ->    the prompt has 213462 tokens, see
"""

from __future__ import annotations

import re
import unicodedata

MAX_CHARS = 1200  # characters read: an error names its kind at its start; what comes later may be an echo
WORD = "A-Za-z0-9_"  # characters of a word; \w would include Chinese letters, which stand right beside numbers

_URL = re.compile(r"https?://\S+")
_SPACE = re.compile(r"\s+")
_QUOTES = re.compile("[`\"'‘’“”*]")
# Here an error begins to quote the client's own request.
_ECHO = re.compile(r"""\b(?:input|input_value|content|messages|prompt)['"]?\s*[:=]\s*[\[{'"]""", re.IGNORECASE)
# "Input validation error" is about the request, not about the prompt.
_PREFIX = re.compile(
    r"(?:input|request|parameter) validation (?:error|failed)|(?:invalid|malformed) input(?: request)?:"
)
# Field names in prose: "input_tokens (33001) > context_length". Names that begin with max_ stay: they are roles.
_FIELD = re.compile(
    r"\b(input|prompt|total|request|context|output|completion)_(tokens?|length|window|size|limit|count)(?!\w)"
)
_GROUPS = r"(?:(?:,\d{3})+|(?:\.\d{3})+|(?:_\d{3})+|(?: \d{3})+)"
_GROUPED = re.compile(rf"(?<![{WORD}.,-])\d{{1,3}}{_GROUPS}(?![{WORD}]|[.,]\d)")
_WHOLE = re.compile(rf"(?<![{WORD}.,-])(\d{{3,12}})\.0(?![{WORD}]|[.,]\d)")
_SUFFIXED = re.compile(rf"(?<![{WORD}.-])(\d{{1,4}}(?:\.\d{{1,3}})?) ?([km])(?![{WORD}]|-(?!token))")


def normalize(text: str) -> str:
    """`text` in the form all patterns expect; only about the first `MAX_CHARS` characters of it."""
    echo = _ECHO.search(text)
    text = unicodedata.normalize("NFKC", text[: echo.start() if echo and echo.start() else None])
    text = _QUOTES.sub("", _URL.sub(" ", text)).lower()
    text = _PREFIX.sub(" ", _SPACE.sub(" ", text))
    return plain_digits(_FIELD.sub(r"\1 \2", text[:MAX_CHARS]))


def plain_digits(text: str) -> str:
    """`text` with its numbers as plain digits: 131,072, 131.072 and 131 072 become 131072, 9351.0 becomes 9351.

    128k becomes 128000, the lower of its two readings: a limit read too low costs a little room, one read too high
    a refusal.
    """
    text = _GROUPED.sub(lambda match: re.sub(r"\D", "", match.group()), text)
    return _SUFFIXED.sub(_expanded, _WHOLE.sub(r"\1", text))


def _expanded(match: re.Match[str]) -> str:
    return str(int(float(match.group(1)) * (1_000 if match.group(2) == "k" else 1_000_000)))


def any_of(*patterns: str) -> re.Pattern[str]:
    """One compiled pattern that matches where any of `patterns` matches."""
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns))
