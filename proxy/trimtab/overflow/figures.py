"""The numbers in an overflow's sentence: how many tokens the upstream takes, and how many it got.

Comparisons (`199759 + 8192 > 200000`) are read first. Every other number gets its role from the words right beside
it, never from its place in a known sentence: "maximum", "limit of", "exceeds" on its left make a limit; "resulted
in", "requested" on its left make what was sent; "input tokens", "in the completion" on its right make a part of that.
A limit on the left wins over a part on the right ("the limit of 272000 input tokens"). Bare nouns ("prompt (43028")
decide only when nothing stronger is there.

Numbers in model names, codes and dates are ignored. Figures that cannot all be true are dropped: a wrong limit does
more harm than none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

import msgspec

from trimtab.overflow.normalize import WORD, any_of

MIN_LIMIT = 256  # tokens: a smaller window is a mistake of the server ("maximum context length is 3 tokens")
MAX_LIMIT = 50_000_000  # tokens: five times the largest window on the market
_MAX_NUMBERS = 16  # numbers read of one sentence
_LEFT_CHARS, _RIGHT_CHARS = 90, 60  # characters beside a number that are read for its role

Kind = Literal["input", "total"]
Role = Literal["limit", "actual", "input", "output", "excess", "none"]


class Figures(msgspec.Struct, frozen=True):
    """What one sentence states, all in tokens, None where it states nothing.

    `limit` is what the upstream takes and `actual` what it got: the input alone (`kind` "input") or input and output
    together ("total"). `input` and `output` are the parts. `lower_bound`: the upstream stopped counting ("at least").
    """

    limit: int | None = None
    actual: int | None = None
    kind: Kind | None = None
    input: int | None = None
    output: int | None = None
    lower_bound: bool = False


_Found = dict[Role, list[tuple[int, bool]]]  # the numbers of each role, each with True for "at least"

# -- comparisons -------------------------------------------------------------------------------------------------

_NUMBER = re.compile(rf"(?<![{WORD}./@#-])\d{{1,12}}(?![{WORD}]|\.\d|%|/\d|-(?!token))")

# 199759 + 8192 > 200000; also in words: "71599 + 2048 is greater than max_seq_len 65536"
_SUM = re.compile(
    r"(\d+)\)?(?: tokens?\)?)? (?:\+|and|plus) [^\d.]{0,30}?(\d+)[^\d.]{0,12}?"
    r"(?:>=?|greater than|exceeds?|larger than|longer than|over)[^\d.]{0,40}?(\d+)"
)
_ROOM = re.compile(r"(\d+) ?> ?(\d+) ?- ?(\d+)")  # 16384 > 65536 - 64170
_CODE = re.compile(r"<\d+>|\[\d+\]")  # an error's own code in its message: "<400> InternalError", "[1261] Prompt"
_COMPARE = any_of(
    r"(\d+)(?: [a-z]+)? ?(?:>=?|≥|\bvs\.?) ?(?:[a-z_]+:? ?=? ?)?(\d+)",  # 213462 tokens > 200000
    r"\b(\d{4,}) ?/ ?(\d{4,})\b",  # 45000 / 32768
    r"\((\d{4,}) (?:tokens )?(?:out )?of (\d{4,})",  # (33001 of 32768)
)
_RANGE = re.compile(r"(?:[\[(] ?[01] ?[,~-] ?|\b(?:between|from) [01] (?:and|to) )(\d+)")  # [1, 30720]

_SENTENCE_END = re.compile(r"[.!?;。] ")
_AT_LEAST = re.compile(r"\bat least *$")
_TOTAL = any_of(
    r"prompt and (?:prediction|completion|output)|input and (?:maximum )?output",
    r"(?:plus|\+) (?:the )?(?:max_tokens|completion)",
)
_OUTPUT_NAMED = re.compile(r"max_\w*tokens|completion|output")


def read_figures(text: str, codes: Iterable[str] = (), asked: int = 0) -> Figures:
    """The figures of one normalized sentence. A number that is one of the error's own `codes` is ignored. `asked` is
    the output that the request asked for, in tokens: a sentence may count the input alone, and refuse both."""
    found: _Found = {}
    text = _read_comparison(_CODE.sub(" ", text), found)
    _read_numbers(text, found, frozenset(codes))
    return _consistent(_combine(text, found), asked, output_named=bool(_OUTPUT_NAMED.search(text)))


def figures_in_fields(limit: int | None, actual: int | None, asked: int = 0) -> Figures:
    """The figures that an error gave in named fields, in tokens, under the same conditions."""
    return _consistent(Figures(limit, actual, "input" if actual else None, actual), asked, output_named=False)


def _read_comparison(text: str, found: _Found) -> str:
    """Add the numbers of the first comparison to `found`; the text without that comparison."""
    shapes: tuple[tuple[re.Pattern[str], tuple[Role, ...]], ...] = (
        (_SUM, ("input", "output", "limit")),
        (_ROOM, ("output", "limit", "input")),
        (_COMPARE, ("actual", "limit")),
        (_RANGE, ("limit",)),
    )
    for pattern, roles in shapes:
        match = pattern.search(text)
        if match:
            for role, number in zip(roles, filter(None, match.groups()), strict=True):
                found.setdefault(role, []).append((int(number[:12]), False))
            return text[: match.start()] + " ; " + text[match.end() :]
    return text


def _read_numbers(text: str, found: _Found, codes: frozenset[str]) -> None:
    """Add each number to `found` under its role, except under a role that a comparison has filled."""
    matches = list(_NUMBER.finditer(text))[:_MAX_NUMBERS]
    taken = set(found)
    for index, match in enumerate(matches):
        begin = matches[index - 1].end() if index else 0
        end = matches[index + 1].start() if index + 1 < len(matches) else len(text)
        left = _SENTENCE_END.split(text[max(begin, match.start() - _LEFT_CHARS) : match.start()])[-1]
        right = text[match.end() : min(end, match.end() + _RIGHT_CHARS)]
        role = "none" if match.group() in codes else role_of(left, right)
        if role == "limit" and _is_bracketed_code(text, match, right):
            role = "none"
        if role not in taken:
            found.setdefault(role, []).append((int(match.group()), bool(_AT_LEAST.search(left))))


def _is_bracketed_code(text: str, match: re.Match[str], right: str) -> bool:
    """True for a number in brackets in a sentence without "token": an error's code, as in "exceeds limit (2013)"."""
    bracketed = text[: match.start()].endswith("(") and right.startswith(")")
    return bracketed and "token" not in text and len(_NUMBER.findall(text)) == 1


def _combine(text: str, found: _Found) -> Figures:
    """One limit and one actual size out of all the numbers found."""
    limits = [n for n, _ in found.get("limit", ()) if n]
    limit = next((n for n in limits if n >= MIN_LIMIT), limits[0] if limits else None)
    output = next((n for n, _ in found.get("output", ())), None)
    parts = found.get("input", [])
    inputs = sum({n for n, _ in parts}) or None  # a set: a part that is stated twice counts once
    actuals = [pair for pair in found.get("actual", ()) if pair[0]]
    excess = next((n for n, _ in found.get("excess", ())), None)
    lower = any(low for _, low in (*parts, *actuals))
    if len(actuals) > 1 and output and actuals[0][0] + output == actuals[1][0]:  # input, output and their sum
        inputs, actuals = actuals[0][0], actuals[1:]
    if not actuals and not inputs and limit and excess:  # "exceeded by 168512 tokens"
        actuals = [(limit + excess, False)]
    if not actuals:
        return Figures(limit, inputs, "input" if inputs else None, inputs, output, lower)
    actual = actuals[0][0]
    total = bool(output) or bool(inputs and inputs != actual) or bool(_TOTAL.search(text))
    if output and inputs is None and limit and actual < limit < actual + output:
        total = False  # input and output are named side by side, without their sum
    if not total:
        return Figures(limit, actual, "input", actual, output, lower)
    if inputs is None and output and actual > output:
        inputs = actual - output
    return Figures(limit, actual, "total", inputs, output, lower)


def _consistent(got: Figures, asked: int, *, output_named: bool) -> Figures:
    """`got` when its figures can all be true, else empty figures: a limit out of bounds, or a size below the limit
    that the output asked for does not bring above it."""
    if got.limit is None:
        return Figures(
            actual=got.actual, kind=got.kind, input=got.input, output=got.output, lower_bound=got.lower_bound
        )
    if not MIN_LIMIT <= got.limit <= MAX_LIMIT:
        return Figures()
    most = max(got.actual or 0, (got.input or 0) + (got.output or asked))
    if (
        got.actual is not None
        and most < got.limit
        and not (got.output is None and output_named and got.kind == "input")
    ):
        return Figures()
    return got


# -- the role of one number --------------------------------------------------------------------------------------

# Words on the right give a role when they follow the number directly; of words on the left the last one counts.
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
    # Before "limit", which would match its "maximum".
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
# "context length exceeded: input 9000, limit 8192": after the colon the prompt is named again.
_PROMPT_AGAIN = re.compile(r"[:,;] ?(?:the |your )?(?:n_)?(?:prompt|input)s?(?: (?:length|size|tokens))?[ =(:]*$")
_OTHER_UNIT = re.compile(r"^ ?(?:characters?|chars|bytes?|[kmg]i?b\b|字符|seconds|messages|requests)")


def role_of(left: str, right: str) -> Role:
    """The role of a number, from the normalized text on its left and on its right, each up to the next number."""
    if _OTHER_UNIT.match(right):
        return "none"
    named = _role_on_the_left(left)
    if _SUBJECT.match(right):
        return "output" if named == "output" else "actual"
    if named == "limit" and _PROMPT_AGAIN.search(left):
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


def _role_on_the_left(left: str) -> str | None:
    """The role of the last strong word on the left, "weak" when there are only bare nouns, None without either."""
    groups = [match.lastgroup for match in _LEFT.finditer(left)]
    strong = [group for group in groups if group != "weak"]
    if not strong:
        return "weak" if groups else None
    return "actual" if strong[-1] == "sum" else strong[-1]
