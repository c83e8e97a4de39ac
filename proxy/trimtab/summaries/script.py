"""In which script people write. Enough to see that a summary is not in the language of the conversation.

Only the scripts are told apart, not the languages that share one. A Chinese, Japanese or Korean character
weighs as three letters: it says about as much, and conversations in those languages are full of Latin names
and code.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

LATIN = "Latin"
# Letters of each script, by Unicode block.
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

EDGE = 300  # characters: what is looked at, at both ends of a message
CLEAR = 0.6  # share of the weight that makes one script the text's own
SEEN = 0.01  # below this share a script is as good as absent
SPOKEN = 0.2  # the least share of the conversation's script in a summary written in it
ENOUGH = 10  # weight below which a text says nothing of its script


def weights(text: str) -> Counter[str]:
    """Weight of each script that occurs in `text`."""
    return Counter({name: n * w for name, (one, w) in SCRIPTS.items() if (n := len(one.findall(text)))})


def dominant(text: str) -> str | None:
    """The script the text is clearly written in, if there is one."""
    found = weights(text)
    total = found.total()
    if total < ENOUGH:
        return None
    name, weight = found.most_common(1)[0]
    return name if weight >= CLEAR * total else None


def spoken(texts: Iterable[str]) -> str | None:
    """The script most of the user's messages are written in, each counted once, by its first clear line:
    people say what they want, and then paste.
    """
    votes = Counter(script for text in texts if (script := _opening(text)) is not None)
    if not votes:
        return None
    name, count = votes.most_common(1)[0]
    return name if count > votes.total() / 2 else None


def foreign(summary: str, texts: list[str]) -> bool:
    """Whether a summary is clearly in another script than the user's messages `texts`.

    Where the user writes Latin letters, only a script that does not occur in the messages at all is
    foreign: a pasted log looks Latin whatever its reader speaks.
    """
    script = spoken(texts)
    found = weights(summary)
    if script is None or found.total() < ENOUGH:
        return False
    if script != LATIN:
        return found[script] < SPOKEN * found.total()
    own = dominant(summary)
    if own is None or own == LATIN:
        return False
    seen = sum((weights(_edges(text)) for text in texts), Counter[str]())
    return seen[own] < SEEN * seen.total()


def _opening(text: str) -> str | None:
    lines = _edges(text).split("\n")
    return next((script for line in lines if (script := dominant(line)) is not None), None)


def _edges(text: str) -> str:
    return text if len(text) <= 2 * EDGE else text[:EDGE] + " " + text[-EDGE:]
