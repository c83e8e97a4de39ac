"""Whether an upstream's answer says that the conversation does not fit its window, and with which numbers.

The way of an answer, with one example all the way down:

    400  {"error": {"type": "invalid_request_error",
                    "message": "Prompt is too long: 213,462 tokens > 200,000 maximum. Please try again later."}}

1. Status. 401, 402 and 407 are about the caller: never an overflow. An empty 400 or 413 is one: it is how some servers
   (Cerebras, Mistral) say it. No other status decides. Here: 400 with a body, go on.
2. `unwrap` finds the error in the body, `error_body` flattens it, `normalize` brings its texts into one form. Here: the
   code `invalidrequesterror`, the text "prompt is too long: 213462 tokens > 200000 maximum. please try again later."
3. `wordings.STRONG_CODE`. A typed code that says it is certain, regardless of the rest: no veto (4) and no doubt (6)
   applies. Here: no such code.
4. `vetoes`. A code or a text about a rate, a quota, a payment and the like ends it. Before the wordings, because a rate
   limit may well say "too many tokens". Advice that follows the cause is not read. Here: "try again later" is advice.
5. `wordings.TOO_LONG`. A sentence that matches, unless it is about another size (the output, bytes, images), decides.
   Of several sentences the one with the most numbers is taken. Here: "prompt is too long" matches; `figures` reads
   the actual size 213,462 and the limit 200,000.
6. Doubt. A 429 must give both numbers, or a strong code, to be believed. Here: a 400.
7. Without such a sentence: a strong code, or a weak one that no sentence contradicts, decides.

    ->  Overflow(limit=200000, actual=213462, actual_kind="input", input_tokens=213462)

Pure: no I/O. Patterns read at most about a thousand characters of a sentence, however long the body is.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

import msgspec

from trimtab.overflow.error_body import ErrorBody
from trimtab.overflow.figures import Figures, figures_in_fields, read_figures
from trimtab.overflow.normalize import normalize
from trimtab.overflow.unwrap import unwrap, unwrap_event
from trimtab.overflow.vetoes import code_rules_out_overflow, is_about_another_size, is_about_rate_or_quota
from trimtab.overflow.wordings import STRONG_CODE, TOO_LONG, WEAK_CODE

MAX_MESSAGE = 2000  # characters kept of the upstream's own message
_ABOUT_THE_CALLER = frozenset((401, 402, 407))
_TOO_MANY_REQUESTS = 429
_NOT_WORD = re.compile(r"[^a-z0-9]")


class Overflow(msgspec.Struct, frozen=True):
    """What an upstream reported about a prompt that was too long. All numbers are tokens.

    `limit` is what it takes, `actual` what it got: the input alone, or input and output together (`actual_kind`).
    `lower_bound`: it stopped counting at `actual`, so the count must not be calibrated with.
    """

    message: str
    limit: int | None = None
    actual: int | None = None
    actual_kind: Literal["input", "total"] | None = None
    lower_bound: bool = False
    input_tokens: int | None = None
    output_tokens: int | None = None

    @property
    def exact_input_tokens(self) -> int | None:
        """The input's count in tokens, None when the upstream stopped counting or gave none."""
        return None if self.lower_bound else self.input_tokens


class _Sentence(NamedTuple):
    """A text that says that the prompt is too long."""

    original: str
    figures: Figures

    @property
    def numbers(self) -> int:
        """How many of limit and actual size it gives."""
        return (self.figures.limit is not None) + (self.figures.actual is not None)


def classify(status: int, body: bytes) -> Overflow | None:
    """The overflow an answer reports, or None. Never raises.

    `body` is JSON, text, HTML or the text of an event stream, without a content-encoding.
    """
    if status in _ABOUT_THE_CALLER:
        return None
    if status in (400, 413) and not body.strip():
        return Overflow(message="")
    for error in unwrap(status, body):
        overflow = _classify_error(error, status)
        if overflow is not None:
            return overflow
    return None


def classify_event(data: bytes) -> Overflow | None:
    """The overflow in the data of one event of a stream that began with a 200, or None. Never raises.

    A chunk of an answer costs a few substring searches.
    """
    error = unwrap_event(data)
    return None if error is None else _classify_error(error, 200)


def _classify_error(error: ErrorBody, status: int) -> Overflow | None:
    codes = [_NOT_WORD.sub("", code.lower()) for code in error.codes]
    texts = [normalize(text) for text in error.texts]
    certain = any(map(STRONG_CODE.match, codes))
    if not certain and (code_rules_out_overflow(codes, error.params) or is_about_rate_or_quota(". ".join(texts))):
        return None
    sentences = _sentences(error, texts)
    if sentences:
        best = max(sentences, key=lambda sentence: sentence.numbers)
        if status == _TOO_MANY_REQUESTS and not certain and best.numbers < 2:
            return None
        return _overflow(error, best.original, best.figures)
    if certain or (any(map(WEAK_CODE.match, codes)) and not any(map(is_about_another_size, texts))):
        longest = max(error.texts, key=len, default="")
        return _overflow(error, longest, read_figures(normalize(longest), error.codes))
    return None


def _sentences(error: ErrorBody, texts: list[str]) -> list[_Sentence]:
    return [
        _Sentence(original, read_figures(text, error.codes))
        for original, text in zip(error.texts, texts, strict=True)
        if TOO_LONG.search(text) and not is_about_another_size(text)
    ]


def _overflow(error: ErrorBody, original: str, figures: Figures) -> Overflow:
    if figures.limit is None and figures.actual is None:
        figures = figures_in_fields(error.limit, error.actual)
    return Overflow(
        message=original[:MAX_MESSAGE],
        limit=figures.limit,
        actual=figures.actual,
        actual_kind=figures.kind,
        lower_bound=figures.lower_bound,
        input_tokens=figures.input,
        output_tokens=figures.output,
    )
