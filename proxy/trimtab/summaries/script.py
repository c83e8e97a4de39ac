"""In which script people write: enough to see that a summary is not in the language of the conversation.

Only scripts are distinguished, not the languages that share one. A Chinese, Japanese or Korean character weighs as much
as three letters: it carries about as much, and conversations in those languages are full of Latin names and code.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

LATIN = "Latin"
# The characters of each script, by Unicode block, and the weight of one.
SCRIPTS: dict[str, tuple[re.Pattern[str], int]] = {
    LATIN: (re.compile("[A-Za-z\u00c0-\u024f\u1e00-\u1eff]"), 1),
    "Cyrillic": (re.compile("[\u0400-\u052f]"), 1),
    "Greek": (re.compile("[\u0370-\u03ff\u1f00-\u1fff]"), 1),
    "Hebrew": (re.compile("[\u0590-\u05ff]"), 1),
    "Arabic": (re.compile("[\u0600-\u06ff\u0750-\u077f]"), 1),
    "Devanagari": (re.compile("[\u0900-\u097f]"), 1),
    "Bengali": (re.compile("[\u0980-\u09ff]"), 1),
    "Tamil": (re.compile("[\u0b80-\u0bff]"), 1),
    "Thai": (re.compile("[\u0e00-\u0e7f]"), 1),
    "Georgian": (re.compile("[\u10a0-\u10ff]"), 1),
    "Korean": (re.compile("[\u1100-\u11ff\uac00-\ud7af]"), 3),
    "Chinese or Japanese": (re.compile("[\u3040-\u30ff\u3400-\u9fff]"), 3),
}

EDGE_CHARS = 300  # characters read at each end of a message
MAIN_SHARE = 0.6  # share of the weight that makes a script the main one of a text
OWN_SHARE = 0.2  # the least share of the users' script in a summary written in their language
SEEN_SHARE = 0.01  # below this share a script counts as absent
LEAST_WEIGHT = 10  # a text of less weight shows no script


def weights(text: str) -> Counter[str]:
    """The weight of each script that occurs in `text`."""
    return Counter({name: n * w for name, (one, w) in SCRIPTS.items() if (n := len(one.findall(text)))})


def main_script(text: str) -> str | None:
    """The script the text is clearly written in, if there is one."""
    found = weights(text)
    total = found.total()
    if total < LEAST_WEIGHT:
        return None
    name, weight = found.most_common(1)[0]
    return name if weight >= MAIN_SHARE * total else None


def users_script(texts: Iterable[str]) -> str | None:
    """The script of most of the user's messages, each counted once by its first clear line: people say what they want,
    and then paste.
    """
    votes = Counter(script for text in texts if (script := _first_script(text)) is not None)
    if not votes:
        return None
    name, count = votes.most_common(1)[0]
    return name if count > votes.total() / 2 else None


def is_foreign(summary: str, texts: list[str]) -> bool:
    """True when a summary is clearly in another script than the user's messages `texts`.

    Where the user writes Latin letters, only a script that does not occur in the messages at all is foreign: a pasted
    log looks Latin whatever language its reader speaks.
    """
    script = users_script(texts)
    found = weights(summary)
    if script is None or found.total() < LEAST_WEIGHT:
        return False
    if script != LATIN:
        return found[script] < OWN_SHARE * found.total()
    own = main_script(summary)
    if own is None or own == LATIN:
        return False
    seen = sum((weights(_edges(text)) for text in texts), Counter[str]())
    return seen[own] < SEEN_SHARE * seen.total()


def _first_script(text: str) -> str | None:
    lines = _edges(text).split("\n")
    return next((script for line in lines if (script := main_script(line)) is not None), None)


def _edges(text: str) -> str:
    return text if len(text) <= 2 * EDGE_CHARS else text[:EDGE_CHARS] + " " + text[-EDGE_CHARS:]
