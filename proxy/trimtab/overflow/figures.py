"""The numbers in an overflow's sentence: how much the upstream takes, how much it got.

Comparisons (`A + B > C`) are read first, then each number gets a role from the words beside it
(`overflow_roles`). Numbers glued to model names, codes and dates are no quantities. What does not add up is
not given at all: a wrong limit does more harm than none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

import msgspec

from trimtab.overflow.normalize import WORD, any_of
from trimtab.overflow.roles import Role, role_of

MIN_LIMIT = 256  # tokens: a served window below this is a server's slip ("maximum context length is 3 tokens")
MAX_LIMIT = 50_000_000  # tokens: five times the largest window anyone serves

Kind = Literal["input", "total"]


class Figures(msgspec.Struct, frozen=True):
    """Tokens. `kind`: whether `actual` is the input alone or input and output together. `lower_bound`: the
    upstream stopped counting ("at least")."""

    limit: int | None = None
    actual: int | None = None
    kind: Kind | None = None
    input: int | None = None
    output: int | None = None
    lower_bound: bool = False


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


def figures(text: str, codes: Iterable[str] = ()) -> Figures:
    """The figures of one `plain` sentence. A number that is one of the error's own `codes` is no figure."""
    found: dict[Role, list[tuple[int, bool]]] = {}
    text = _compared(_CODE.sub(" ", text), found)
    _by_words(text, found, frozenset(codes))
    return _consistent(_settle(text, found), output_named=bool(_OUTPUT_NAMED.search(text)))


def in_fields(limit: int | None, actual: int | None) -> Figures:
    """The figures an error gave in named fields of its own, under the same conditions."""
    return _consistent(Figures(limit, actual, "input" if actual else None, actual), output_named=False)


def _compared(text: str, found: dict[Role, list[tuple[int, bool]]]) -> str:
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


def _by_words(text: str, found: dict[Role, list[tuple[int, bool]]], codes: frozenset[str]) -> None:
    matches = list(_NUMBER.finditer(text))[:16]
    taken = set(found)
    for index, match in enumerate(matches):
        begin = matches[index - 1].end() if index else 0
        end = matches[index + 1].start() if index + 1 < len(matches) else len(text)
        left = _SENTENCE_END.split(text[max(begin, match.start() - 90) : match.start()])[-1]
        right = text[match.end() : min(end, match.end() + 60)]
        role = "none" if match.group() in codes else role_of(left, right)
        if role == "limit" and _only_bracketed(text, match, right):
            role = "none"
        if role not in taken:
            found.setdefault(role, []).append((int(match.group()), bool(_AT_LEAST.search(left))))


def _only_bracketed(text: str, match: re.Match[str], right: str) -> bool:
    """A number in brackets where no tokens are spoken of is an error's code: "exceeds limit (2013)"."""
    bracketed = text[: match.start()].endswith("(") and right.startswith(")")
    return bracketed and "token" not in text and len(_NUMBER.findall(text)) == 1


def _settle(text: str, found: dict[Role, list[tuple[int, bool]]]) -> Figures:
    limits = [n for n, _ in found.get("limit", ()) if n]
    limit = next((n for n in limits if n >= MIN_LIMIT), limits[0] if limits else None)
    output = next((n for n, _ in found.get("output", ())), None)
    parts = found.get("input", [])
    inputs = sum({n for n, _ in parts}) or None  # said twice, it is still one part
    actuals = [pair for pair in found.get("actual", ()) if pair[0]]
    excess = next((n for n, _ in found.get("excess", ())), None)
    lower = any(low for _, low in (*parts, *actuals))
    if len(actuals) > 1 and output and actuals[0][0] + output == actuals[1][0]:
        inputs, actuals = actuals[0][0], actuals[1:]
    if not actuals and not inputs and limit and excess:
        actuals = [(limit + excess, False)]
    if not actuals:
        return Figures(limit, inputs, "input" if inputs else None, inputs, output, lower)
    actual = actuals[0][0]
    total = bool(output) or bool(inputs and inputs != actual) or bool(_TOTAL.search(text))
    if output and inputs is None and limit and actual < limit < actual + output:
        total = False  # input and output stand side by side, no sum is stated
    if not total:
        return Figures(limit, actual, "input", actual, output, lower)
    if inputs is None and output and actual > output:
        inputs = actual - output
    return Figures(limit, actual, "total", inputs, output, lower)


def _consistent(got: Figures, *, output_named: bool) -> Figures:
    """The figures that can be true together; none of them when they cannot."""
    if got.limit is None:
        return Figures(
            actual=got.actual, kind=got.kind, input=got.input, output=got.output, lower_bound=got.lower_bound
        )
    if not MIN_LIMIT <= got.limit <= MAX_LIMIT:
        return Figures()
    most = max(got.actual or 0, (got.input or 0) + (got.output or 0))
    if (
        got.actual is not None
        and most < got.limit
        and not (got.output is None and output_named and got.kind == "input")
    ):
        return Figures()
    return got
