"""How an upstream's sentence is read before any pattern sees it: one case, one kind of space, no quotes, no
links, numbers as plain digits, and nothing of what the client itself wrote.

All patterns of `overflow_vetoes`, `overflow_families` and `overflow_figures` expect text in this form.
"""

from __future__ import annotations

import re
import unicodedata

REACH = 1200  # characters: an error names its kind at its start; what comes later may be an echo
WORD = "A-Za-z0-9_"  # \w would take Chinese letters too, which stand right beside numbers

_URL = re.compile(r"https?://\S+")
_SPACE = re.compile(r"\s+")
_QUOTES = re.compile("[`\"'‘’“”*]")
# From here on the client's own request is repeated.
_ECHO = re.compile(r"""\b(?:input|input_value|content|messages|prompt)['"]?\s*[:=]\s*[\[{'"]""", re.IGNORECASE)
# "Input validation error" speaks of the request, not of its input.
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


def plain(text: str) -> str:
    """The sentence in the form all patterns expect, at most `REACH` characters of it."""
    echo = _ECHO.search(text)
    text = unicodedata.normalize("NFKC", text[: echo.start() if echo and echo.start() else None])
    text = _QUOTES.sub("", _URL.sub(" ", text)).lower()
    text = _PREFIX.sub(" ", _SPACE.sub(" ", text))
    return digits(_FIELD.sub(r"\1 \2", text[:REACH]))


def digits(text: str) -> str:
    """Numbers as plain digits: 131,072, 131.072, 131 072, 9351.0 and 128k all lose their form. 128k is 128,000, the
    lower reading: a limit read too low costs a little room, one read too high a refusal."""
    text = _GROUPED.sub(lambda match: re.sub(r"\D", "", match.group()), text)
    return _SUFFIXED.sub(_expanded, _WHOLE.sub(r"\1", text))


def _expanded(match: re.Match[str]) -> str:
    return str(int(float(match.group(1)) * (1_000 if match.group(2) == "k" else 1_000_000)))


def any_of(*patterns: str) -> re.Pattern[str]:
    """One pattern that matches where any of these does."""
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns))
