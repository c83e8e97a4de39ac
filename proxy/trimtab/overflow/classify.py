"""Whether an upstream's answer says that the conversation does not fit its window, and with which numbers.

The way of an answer, with one example all the way down:

    400  {"error": {"type": "invalid_request_error",
                    "message": "Prompt is too long: 213,462 tokens > 200,000 maximum. Please try again later."}}

1. Status. 401, 402 and 407 are about the caller: never an overflow. An empty 400 or 413 is one: it is how some servers
   (Cerebras, Mistral) say it. No other status decides. Here: 400 with a body, go on.
2. `unwrap` finds the error in the body, `error_body` flattens it, `sent` takes out what it repeats of the request, and
   `normalize` brings its texts into one form. Here: the code `invalidrequesterror`, the text "prompt is too long:
   213462 tokens > 200000 maximum. please try again later."
3. `wordings.STRONG_CODE`. A typed code that says it is certain, regardless of the rest: no veto (4) and no doubt (6)
   applies. Here: no such code.
4. `vetoes`. A code or a text about a rate, a quota, a payment and the like ends it. Before the wordings, because a rate
   limit may well say "too many tokens". Advice that follows the cause is not read. Here: "try again later" is advice.
5. `wordings.TOO_LONG`. A sentence that matches, unless it is about another size (the output, bytes, images), decides.
   Of several sentences the one with the most numbers is taken. Here: "prompt is too long" matches; `figures` reads
   the actual size 213,462 and the limit 200,000.
6. Doubt. A 429 must give both numbers, or a strong code, to be believed. A sentence that is found late may be quoted,
   so its limit must not be far above what was sent. Numbers that disagree with what was sent are not believed. Here:
   a 400.
7. Without such a sentence: a strong code, or a weak one that no sentence contradicts, decides. Or the numbers do: in a
   refusal in words that nobody here knows, a count that agrees with what was sent, above a limit; or a number below
   what was sent, beside the words for context and for tokens.

    ->  Overflow(limit=200000, actual=213462, actual_kind="input", input_tokens=213462)

Pure: no I/O. Patterns read at most about a thousand characters of a sentence, however long the body is.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

import msgspec

from trimtab.overflow.error_body import ErrorBody
from trimtab.overflow.figures import MIN_LIMIT, Figures, figures_in_fields, read_figures
from trimtab.overflow.normalize import normalize
from trimtab.overflow.sent import OwnWords, Sent, own_words
from trimtab.overflow.unwrap import is_chunk, unwrap, unwrap_event
from trimtab.overflow.vetoes import code_rules_out_overflow, is_about_another_size, is_about_rate_or_quota
from trimtab.overflow.wordings import CONTEXT, STRONG_CODE, TOO_LONG, WEAK_CODE

MAX_MESSAGE = 2000  # characters kept of the upstream's own message
_ABOUT_THE_CALLER = frozenset((401, 402, 407))
_TOO_MANY_REQUESTS = 429
_NEAR_START = 400  # characters of a text that count as its start
_FAR_ABOVE = 4  # times what was sent: a request so far below a limit was not refused for it
_UNBELIEVED = 5, 10  # a count below a fifth of what was sent, or above ten times that, is another request's
_AGREES = 2  # a count agrees with the estimate of what was sent up to this factor: no two tokenizers differ by more
_REFUSED = frozenset((400, 413, 422))  # what servers answer to a request that is wrong
_NEARLY = 1.5  # a count is within this factor of the estimate: text of a known kind is estimated much better
_LARGE_NUMBER = re.compile(r"(?<![\w./@#-])\d{3,9}(?![\w%]|[./]\d)")
_TOKENS = re.compile(
    r"token|jeton|żeton|токен|टोकन|टोकेन|টোকেন|டோக்கன்|โทเค็น|โทเคน|رمز|رموز|توكن|توکن|טוקנ|אסימונ|トークン|토큰|令牌|词元|詞元"
)
_NOT_WORD = re.compile(r"[^a-z0-9]")


class Overflow(msgspec.Struct, frozen=True):
    """What an upstream reported about a prompt that was too long. All numbers are tokens.

    `limit` is what it takes, `actual` what it got: the input alone, or input and output together (`actual_kind`).
    `lower_bound`: it stopped counting at `actual`, so the count must not be calibrated with. `believed`: the count may
    be of what was sent; otherwise the numbers are for the client alone. `agreed`: it agrees with the estimate, and the
    words are certainly the upstream's, so the limit may bind other tenants too.
    """

    message: str
    limit: int | None = None
    actual: int | None = None
    actual_kind: Literal["input", "total"] | None = None
    lower_bound: bool = False
    input_tokens: int | None = None
    output_tokens: int | None = None
    believed: bool = True
    agreed: bool = False

    @property
    def as_believed(self) -> Overflow:
        """The same overflow, without numbers that are not believed."""
        return self if self.believed else Overflow(message=self.message)

    @property
    def exact_input_tokens(self) -> int | None:
        """The input's count in tokens, None when the upstream stopped counting or gave none."""
        return None if self.lower_bound else self.input_tokens


class _Sentence(NamedTuple):
    """A text that says that the prompt is too long."""

    original: str
    figures: Figures
    position: int  # characters before it in its text
    certain: bool  # the words are the upstream's own

    @property
    def numbers(self) -> int:
        """How many of limit and actual size it gives."""
        return (self.figures.limit is not None) + (self.figures.actual is not None)


def classify(status: int, body: bytes, sent: Sent | None = None) -> Overflow | None:
    """The overflow an answer reports, or None. Never raises.

    `body` is JSON, text, HTML or the text of an event stream, without a content-encoding. `sent` is what it answers;
    without it nothing can be compared.
    """
    if status in _ABOUT_THE_CALLER or (status < 400 and body.startswith(b"{") and is_chunk(body)):
        return None
    if status in (400, 413) and not body.strip():
        return Overflow(message="")
    for error in unwrap(status, body, sent):
        overflow = _classify_error(error, status, sent)
        if overflow is not None:
            return overflow
    return None


def classify_event(data: bytes, sent: Sent | None = None) -> Overflow | None:
    """The overflow in the data of one event of a stream that began with a 200, or None. Never raises.

    A chunk of an answer costs a few substring searches.
    """
    error = unwrap_event(data, sent)
    return None if error is None else _classify_error(error, 200, sent)


def _classify_error(error: ErrorBody, status: int, sent: Sent | None) -> Overflow | None:
    codes = [_NOT_WORD.sub("", code.lower()) for code in error.codes]
    own = _own_words(error, sent)
    texts = [normalize(text.text) for text in own]
    strong = any(map(STRONG_CODE.match, codes))
    if not strong and (code_rules_out_overflow(codes, error.params) or is_about_rate_or_quota(". ".join(texts))):
        return None
    asked = sent.output_tokens if sent else 0
    sentences = _sentences(error, own, texts, asked)
    if sentences:
        best = max(sentences, key=lambda sentence: sentence.numbers)
        if not strong and _is_doubtful(best, status, sent):
            return None
        return _overflow(error, best, sent)
    if strong or (any(map(WEAK_CODE.match, codes)) and not any(map(is_about_another_size, texts))):
        longest = max(error.texts, key=len, default="")
        figures = read_figures(normalize(longest), error.codes, asked)
        return _overflow(error, _Sentence(longest, figures, 0, False), sent)
    return _by_numbers(error, own, texts, sent) if status in _REFUSED else None


def _by_numbers(error: ErrorBody, own: list[OwnWords], texts: list[str], sent: Sent | None) -> Overflow | None:
    """The overflow in a sentence of unknown words, in any language: with a word for tokens and two numbers, of which
    the larger is a count of what was sent, as nearly as estimates are; or with a word for the context too, and one
    number that is smaller: its size."""
    if sent is None or not sent.input_tokens:
        return None
    low, high = sent.input_tokens / _NEARLY, (sent.input_tokens + sent.output_tokens) * _NEARLY
    for original, words, text in zip(error.texts, own, texts, strict=True):
        numbers = sorted({int(number) for number in _LARGE_NUMBER.findall(text)})
        if not numbers or not words.certain or is_about_another_size(text) or not _TOKENS.search(text):
            continue
        if numbers[0] < MIN_LIMIT or all(sent.holds(str(number)) for number in numbers):  # they may be the client's own
            continue
        if len(numbers) == 1 and numbers[0] < high and CONTEXT.search(text):
            return _overflow(error, _Sentence(original, Figures(numbers[0]), 0, False), sent)
        limit, actual = numbers if len(numbers) == 2 else (0, 0)
        if low <= actual <= high:
            kind: Literal["input", "total"] = "input" if actual <= sent.input_tokens * _NEARLY else "total"
            figures = Figures(limit, actual, kind, actual if kind == "input" else None)
            return _overflow(error, _Sentence(original, figures, 0, False), sent)
    return None


def _own_words(error: ErrorBody, sent: Sent | None) -> list[OwnWords]:
    """The texts without what they repeat of the request. A text that is repeated as a whole is dropped where another
    one says what is wrong: then it is only the value that was wrong."""
    own = [own_words(text, sent) for text in error.texts]
    says_more = any(not text.repeated and " " in text.text.strip() for text in own)
    return [OwnWords("") if text.repeated and says_more else text for text in own]


def _sentences(error: ErrorBody, own: list[OwnWords], texts: list[str], asked: int) -> list[_Sentence]:
    return [
        _Sentence(original, read_figures(text, error.codes, asked), found.start(), words.certain)
        for original, words, text in zip(error.texts, own, texts, strict=True)
        if (found := TOO_LONG.search(text)) and not is_about_another_size(text)
    ]


def _is_doubtful(sentence: _Sentence, status: int, sent: Sent | None) -> bool:
    if status == _TOO_MANY_REQUESTS and sentence.numbers < 2:
        return True
    limit = sentence.figures.limit
    if sentence.position <= _NEAR_START or sent is None or limit is None:
        return False
    return (sent.input_tokens + sent.output_tokens) * _FAR_ABOVE < limit


def _overflow(error: ErrorBody, sentence: _Sentence, sent: Sent | None) -> Overflow:
    figures = sentence.figures
    if figures.limit is None and figures.actual is None:
        figures = figures_in_fields(error.limit, error.actual, sent.output_tokens if sent else 0)
    shares = _shares_of_sent(figures, sent)
    low, high = _UNBELIEVED
    return Overflow(
        message=sentence.original[:MAX_MESSAGE],
        limit=figures.limit,
        actual=figures.actual,
        actual_kind=figures.kind,
        lower_bound=figures.lower_bound,
        input_tokens=figures.input,
        output_tokens=figures.output,
        believed=not shares or any(1 / low <= share <= high for share in shares),
        agreed=sentence.certain and any(1 / _AGREES <= share <= _AGREES for share in shares),
    )


def _shares_of_sent(figures: Figures, sent: Sent | None) -> list[float]:
    """The reported counts over the estimates of what was sent: of the input, and of input and output together."""
    if sent is None or not sent.input_tokens:
        return []
    inputs, both = figures.input, figures.actual
    shares = [] if inputs is None else [inputs / sent.input_tokens]
    return shares if both is None else [*shares, both / (sent.input_tokens + sent.output_tokens)]
