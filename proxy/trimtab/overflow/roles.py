"""What a number in an overflow's sentence counts, told by the words right beside it.

Never by its place in a known sentence: left of it "maximum", "limit of", "exceeds" make a limit, "resulted
in", "requested" what was sent; right of it "input tokens", "in the completion" make a part of that. A limit
on the left wins over a part on the right ("the limit of 272000 input tokens"); bare nouns ("prompt (43028")
decide only when nothing stronger is there.
"""

from __future__ import annotations

import re
from typing import Literal

from trimtab.overflow.normalize import any_of

Role = Literal["limit", "actual", "input", "output", "excess", "none"]

# The words that give a number its role: to its right, from there on; to its left, the last one counts.
_RIGHT_INPUT = any_of(
    r"^[ )]*(?:tokens? )?(?:in|of|from) (?:the |your |text |tool |input )*"
    r"(?:prompt|input|messages?|functions?|tools?|text|history|conversation)",
    r"^[ )]*(?:input|prompt|inputs|context) tokens",
)
_RIGHT_OUTPUT = any_of(
    r"^[ )]*(?:tokens? )?(?:in|for|of|from) (?:the |your )?(?:completion|output|response|generation|answer)",
    r"^[ )]*(?:requested |max(?:imum)? )?(?:output|completion|response|new|max_(?:new_|output_|completion_)?) ?tokens",
)
_RIGHT_LIMIT = any_of(
    r"^[ )]*-?(?:tokens? )?(?:maximum|max\b|limit|allowed|supported|available)",
    r"^[ )]*-?(?:tokens? )?context (?:length|window|size|limit)",
)
_RIGHT: tuple[tuple[Role, re.Pattern[str]], ...] = (
    ("output", _RIGHT_OUTPUT),
    ("input", _RIGHT_INPUT),
    ("limit", _RIGHT_LIMIT),
)
# The number is what exceeds, or what was sent: "context length of 33001 tokens exceeds the limit".
_SUBJECT = any_of(
    r"^[ )]*(?:tokens?\)? )?(?:exceeds?\b|does not fit|(?:must|should) (?:not )?(?:be|exceed)\b)",
    r"^[ )]*(?:tokens?\)? )?(?:is|are) (?:greater|longer|larger|bigger|more|over|too|above)\b",
    r"^ (?:tokens? )?(?:were|was|are) (?:provided|sent|requested|given|received|used|found|supplied)",
)
_LEFT_WORDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("excess", (r"\bby(?: about| approximately)? *$",)),
    (
        "none",
        (
            r"\b(?:code|error|status|errno|http|line|column|char|index|id)(?: is| of)?\W*$",
            r"\b(?:version|position|value)(?: is| of)?\W*$",
            r"\b(?:minimum|min|below)(?: is| of)?\W*$|-$|\bcharacters?(?: is| of)?\W*$|字符\W*$",
        ),
    ),
    # Stands before "limit", which would read its "maximum".
    ("sum", (r"\binput and (?:maximum |max )?output tokens",)),
    (
        "output",
        (
            r"\bmax_(?:new_|output_|completion_)?tokens\b|\bmaxoutputtokens|\bmax generation|\bgenerating",
            r"\b(?:generation|output|completion) length|\bcompletion\b|输出",
        ),
    ),
    (
        "limit",
        (
            r"\bmax(?:imum|imal\w*)?\b|\bmax_\w+|\blimite?[sd]?\b|\ballow\w*|\bsupport\w*|\baccepts?\b|\bavailable\b",
            r"\bonly\b|\bup to\b|\bat most\b|\bno more than\b|\bexceed\w*|<=? *$|≤ *$",
            r"\b(?:less|longer|greater|larger|more|fewer|smaller|higher) than\b|\bwithin\b",
            r"\bover\b|\babove\b",
            r"\bcontext[ _-](?:length|window|size|limit)|\bslot context\b",
            r"\bcontext (?:is|allows|supports)\b|\bfit\w* in\w*\b|\bn_ctx\w*|\bwindow\b|\bcapacity\b",
            r"\bcap\b|上限|最大|限制|超过|超出|最多|最長|최대|제한|límite|máxim\w*|лимит\w*|максим\w*",
            r"überschr\w*|dépass\w*|massim\w*|maksym\w*",
        ),
    ),
    (
        "actual",
        (
            r"\bresult\w* in\b|\brequest(?:ed|ing)\b|\bcontain\w*|\bha[sd]\b|\bhave\b|\breceived\b|\bgiven\b",
            r"\bgot\b|\bcurrent\b|\brequires?\b|\buse[ds]?\b|\bsent\b|\bprovided\b|\bpassed\b|\bsupplied\b",
            r"\bkeep the first\b|\bn_keep\b|\bactual\b|当前|实际|现有|您的",
        ),
    ),
    (
        "weak",
        (
            r"\b(?:prompts?|inputs?|messages?|request|tokens?|length|total|conversation|sequence|count)\b",
            r"\bcontext\b|输入|请求|长度|トークン|토큰",
        ),
    ),
)
_LEFT = re.compile("|".join(f"(?P<{role}>{'|'.join(words)})" for role, words in _LEFT_WORDS))
# "the sum of prompt length (9000) and max_tokens (100)": a part by its name, where nothing stronger is there.
_LEFT_INPUT = re.compile(r"\b(?:prompt|inputs?) (?:length|tokens)\W*$")
# "context length exceeded: input 9000, limit 8192": behind the colon the prompt is named anew.
_ANEW = re.compile(r"[:,;] ?(?:the |your )?(?:n_)?(?:prompt|input)s?(?: (?:length|size|tokens))?[ =(:]*$")
_OTHER_UNIT = re.compile(r"^ ?(?:characters?|chars|bytes?|[kmg]i?b\b|字符|seconds|messages|requests)")


def role_of(left: str, right: str) -> Role:
    """The role of a number, by the words between it and its neighbours, in `plain` text."""
    if _OTHER_UNIT.match(right):
        return "none"
    named = _named(left)
    if _SUBJECT.match(right):
        return "output" if named == "output" else "actual"
    if named == "limit" and _ANEW.search(left):
        return "actual"
    if named == "limit" and left.endswith(": ") and _RIGHT_INPUT.match(right):
        return "input"  # "exceeds the context window: 130000 input tokens"
    if named in ("excess", "none", "limit"):
        return named  # type: ignore[return-value]
    for role, pattern in _RIGHT:
        if pattern.match(right):
            return role
    if named in ("output", "actual"):
        return named  # type: ignore[return-value]
    if named == "weak":
        return "input" if _LEFT_INPUT.search(left) else "actual"
    return "none"


def _named(left: str) -> str | None:
    """What the words on the left make of the number: the last of the strong ones, or "weak" for bare nouns."""
    groups = [match.lastgroup for match in _LEFT.finditer(left)]
    strong = [group for group in groups if group != "weak"]
    if not strong:
        return "weak" if groups else None
    return "actual" if strong[-1] == "sum" else strong[-1]
