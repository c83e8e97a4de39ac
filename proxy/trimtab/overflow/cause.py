"""Where an error tells its cause: before its advice.

An error names first what is wrong, then what may help: try again later, write to us, larger plans have larger
windows, more images are more tokens. The advice must not undo the cause. Only a cause beyond doubt ends the
reading: "the prompt is too long" can mean nothing else, while "too many tokens" may still become "per minute",
"too large" a number of bytes, and "prompt limit" one of prompts.
"""

from __future__ import annotations

import re
from itertools import islice

from trimtab.overflow.normalize import WORD
from trimtab.overflow.wordings import FAMILIES

MOST = 4  # doubtful clauses passed over: an error names its kind at its start
_CLAUSE_END = re.compile(rf"[.!?;,](?![{WORD}])|[。、]")  # neither in 1.5 nor in [1,30720]
_DOUBTFUL = re.compile(r"\btokens?\b|\brequests?\b|\blimit|\bnumber of|\blarge|\bbig|\bsize|トークン|토큰|токен")
_CERTAIN = re.compile(
    r"context|window|length|model_len|\blong|\btoken count|\bsupports?\b"
    r"|\b(?:prompt|conversation|history)\b(?! tokens| limit)|上下文|长|コンテキスト|長|컨텍스트|контекст"
)


def cause(text: str) -> str:
    """The part of a `plain` text that tells why: to the end of the first clause that says beyond doubt that a
    prompt does not fit, or all of it."""
    for found in islice(FAMILIES.finditer(text), MOST):
        ends = _CLAUSE_END.search(text, found.end())
        if ends and ends.group() == "?":
            continue  # a question states nothing
        told = text[: ends.start() if ends else None]
        clause = told[max(told.rfind(sign, 0, found.start()) for sign in (". ", ", ", "; ", "。")) + 1 :]
        if _CERTAIN.search(clause) or not _DOUBTFUL.search(clause):
            return told
    return text
