"""Whether an upstream's answer says that the conversation does not fit its window.

The judgement, in this order, over the unwrapped complaint (`unwrap`): a typed code decides, whatever is said
beside it (`overflow_families`); then what asks for waiting, paying or other content is no overflow, unless that
is advice which follows the cause (`overflow_vetoes`); then sentences about other sizes (output, bytes, images,
one field) are set aside; then the families of wordings, the one with the most numbers first. Status alone
decides nothing, with two exceptions: an empty 400 or 413 is how some servers say "too long" (Cerebras, Mistral),
and a 429 must give both numbers, or a code, to be believed.

Pure: no I/O. Patterns see at most a thousand characters of a sentence, however long the body is.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from trimtab.overflow.error_body import Complaint
from trimtab.overflow.figures import Figures, figures, in_fields
from trimtab.overflow.normalize import plain
from trimtab.overflow.unwrap import unwrap, unwrap_event
from trimtab.overflow.vetoes import about_another_size, asks_for_something_else, vetoed
from trimtab.overflow.wordings import FAMILIES, STRONG_CODE, WEAK_CODE

MAX_MESSAGE = 2000  # characters kept of the upstream's own message
DOUBTFUL = 429  # means something else unless a code or both numbers put the text beyond doubt
NEAR_START = 400  # characters: a sentence found later may be quoted, and must fit what we sent
NEVER = frozenset((401, 402, 407))  # who asks and who pays
_NOT_WORD = re.compile(r"[^a-z0-9]")


class Overflow(msgspec.Struct, frozen=True):
    """What an upstream said about a prompt that was too long. All numbers are tokens.

    `limit` is what it takes, `actual` what it got: of the input alone, or with the output asked for
    (`actual_kind`). `lower_bound`: it stopped counting at `actual`; never calibrate with it.
    `evidence` is what was believed: its typed code, its text, or only the status of an empty body.
    """

    message: str
    limit: int | None = None
    actual: int | None = None
    actual_kind: Literal["input", "total"] | None = None
    lower_bound: bool = False
    input_tokens: int | None = None
    output_tokens: int | None = None
    evidence: Literal["code", "text", "status"] = "text"

    @property
    def input_fits(self) -> bool:
        """The input alone is within the limit: lowering `max_tokens` is enough, history need not go."""
        if self.limit is None or self.input_tokens is None or self.lower_bound:
            return False
        return self.input_tokens < self.limit

    @property
    def calibrates(self) -> int | None:
        """The input's true tokens, when the upstream counted them to the end."""
        return None if self.lower_bound else self.input_tokens


def classify(status: int, body: bytes, estimate: int | None = None) -> Overflow | None:
    """The overflow an answer reports, or None. `body` is decoded (no content-encoding): JSON, text, HTML or
    the text of an event stream. `estimate` is our own count of the request's tokens: words found late in a
    message that name a limit far above it are quoted, not said of this request. Never raises."""
    if status in NEVER:
        return None
    if status in (400, 413) and not body.strip():
        return Overflow(message="", evidence="status")
    for complaint in unwrap(status, body):
        overflow = _judge(complaint, status, estimate)
        if overflow is not None:
            return overflow
    return None


def classify_event(data: bytes) -> Overflow | None:
    """The overflow in one event's data of a stream that answered 200, or None. An ordinary chunk costs a few
    substring searches. Never raises."""
    complaint = unwrap_event(data)
    return None if complaint is None else _judge(complaint, 200)


def _judge(complaint: Complaint, status: int, estimate: int | None = None) -> Overflow | None:
    codes = [_NOT_WORD.sub("", code.lower()) for code in complaint.codes]
    texts = [plain(text) for text in complaint.texts]
    coded = any(map(STRONG_CODE.match, codes))
    if not coded and (vetoed(codes, complaint.params) or asks_for_something_else(". ".join(texts))):
        return None
    said = [
        (original, figures(text, complaint.codes), found.start())
        for original, text in zip(complaint.texts, texts, strict=True)
        if (found := FAMILIES.search(text)) and not about_another_size(text)
    ]
    if said:
        original, got, position = max(said, key=lambda one: (one[1].limit is not None) + (one[1].actual is not None))
        if not coded and _doubted(got, status, position, estimate):
            return None
        return _overflow(complaint, original, got, "code" if coded else "text")
    weak = any(map(WEAK_CODE.match, codes)) and not any(map(about_another_size, texts))
    if coded or weak:
        original = max(complaint.texts, key=len, default="")
        return _overflow(complaint, original, figures(plain(original), complaint.codes), "code")
    return None


def _doubted(got: Figures, status: int, position: int, estimate: int | None) -> bool:
    if status == DOUBTFUL:
        return got.limit is None or got.actual is None
    if position <= NEAR_START or estimate is None or got.limit is None:
        return False
    return estimate * 4 < got.limit


def _overflow(complaint: Complaint, original: str, got: Figures, evidence: Literal["code", "text"]) -> Overflow:
    if got.limit is None and got.actual is None:
        got = in_fields(complaint.limit, complaint.actual)
    return Overflow(
        message=original[:MAX_MESSAGE],
        limit=got.limit,
        actual=got.actual,
        actual_kind=got.kind,
        lower_bound=got.lower_bound,
        input_tokens=got.input,
        output_tokens=got.output,
        evidence=evidence,
    )
