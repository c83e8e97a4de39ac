"""What was sent, and what an error repeats of it.

Many errors quote the request: "Invalid value: 'This model's maximum context length is 300 tokens'". Such words are the
client's, and evidence of nothing. So before a text is read as a sentence about the window, the spans in it that stand
in the request are taken out: all quoted ones, and an unquoted one that would read like an overflow by itself.

What the upstream says at the very start of a text, or right before a number that is not in the request, is its own,
even where a conversation about overflows holds the same words. If nothing in the text tells the two apart, the error
counts for its own request only (`OwnWords.certain`).

    request  "... This model's maximum context length is 300 tokens ..."
    error    "Invalid value: This model's maximum context length is 300 tokens"    ->    "Invalid value: "
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import msgspec

from trimtab.overflow.normalize import MAX_CHARS, normalize
from trimtab.overflow.wordings import TOO_LONG

LARGEST = 2_000_000  # bytes of a request that is compared; of a larger one nothing is certain
_SHORTEST_RUN = 4  # words: fewer stand in any long conversation
_STRIDE = 2  # words between two places where a repeated run is looked for
_FEW_WORDS = 3  # in quotes: a name, not a sentence
_LARGEST_NESTING = 64

_NOT_ALNUM = bytes(c for c in range(128) if not chr(c).isalnum())
_WORD = re.compile(r"[^\W_]+")
_NUMBER = re.compile(r"\d[\d,._]{2,}")
# A span in quotes, an apostrophe within a word apart; one that is cut off ends with the text.
_QUOTED = re.compile(
    r"""(?<![\w\\])(?:'(?:[^']|(?<=\w)'(?=\w))*+(?:'(?!\w)|$)"""
    r"""|"[^"]*(?:"|$)|`[^`]*`|“[^”]*(?:”|$)|‘[^’]*(?:’(?!\w)|$))"""
)
_VALUE = re.compile(r"""['"]\s*:\s*$""")  # before a value in a mapping that is printed: {'message': '...'}
# Words before the upstream's own sentence: "litellm.BadRequestError: OpenAIException - This model's maximum ...".
_PREAMBLE = re.compile(
    r"^(?:[\W\d_]|\w*(?:error|exception|failure)\b|litellm\b|code\b"
    r"|provider returned\b|upstream (?:said|returned)\b)*$",
    re.IGNORECASE,
)


class Sent:
    """A request as the upstream got it: its bytes; in tokens its estimated input, the output that it asks for (0 where
    it names none), and the window that both must fit (0 where it is a guess)."""

    def __init__(self, body: bytes = b"", input_tokens: int = 0, output_tokens: int = 0, window: int = 0) -> None:
        self.input_tokens, self.output_tokens, self.window = input_tokens, output_tokens, window
        self._body = body

    @property
    def size(self) -> int:
        """Bytes of the request."""
        return len(self._body)

    @property
    def comparable(self) -> bool:
        """True when the request is small enough to compare texts with it."""
        return 0 < len(self._body) <= LARGEST

    def holds(self, text: str) -> bool:
        """True when the letters and digits of `text` stand in the request in this order. Case, signs and blanks do not
        count: errors print what they repeat in many ways."""
        wanted = _letters(text)
        return bool(wanted) and self.comparable and wanted in self._letters

    @cached_property
    def _letters(self) -> bytes:
        try:
            return _letters("\n".join(_strings(msgspec.json.decode(self._body), _LARGEST_NESTING)))
        except (msgspec.DecodeError, RecursionError, ValueError):
            return _letters(self._body.decode("utf-8", "replace"))


class OwnWords(msgspec.Struct, frozen=True):
    """A text without what it repeats of the request. `certain`: no word of it is in doubt. `repeated`: all of it
    stands in the request."""

    text: str
    certain: bool = True
    repeated: bool = False


def own_words(text: str, sent: Sent | None) -> OwnWords:
    """What `text` holds of the upstream's own words. Without `sent` only what is in quotes is taken out."""
    text = html.unescape(text[: 2 * MAX_CHARS])
    text = _QUOTED.sub(lambda found: _kept_quote(found, sent), text)
    if sent is None or not sent.comparable:
        return OwnWords(text, certain=False)
    words = list(_WORD.finditer(text))
    kept, certain, end = [], True, 0
    for first, last in _runs(text, words, sent):
        start, stop = words[first].start(), words[last - 1].end()
        if _PREAMBLE.match(text[:start]):
            if last == len(words):
                return OwnWords(text, certain=False, repeated=True)
            certain = certain and _NUMBER.search(text[stop:]) is not None
        elif TOO_LONG.search(normalize(text[start:stop])) and not _is_number(words, last):
            kept.append(text[end:start])
            end = stop
    return OwnWords(" … ".join([*kept, text[end:]]), certain=certain)


def _kept_quote(found: re.Match[str], sent: Sent | None) -> str:
    quoted = found.group()
    if len(quoted.split()) < _FEW_WORDS:
        return quoted
    is_value = _VALUE.search(found.string[max(0, found.start() - 4) : found.start()])
    return quoted if is_value and not (sent and sent.holds(quoted)) else " … "


def _runs(text: str, words: Sequence[re.Match[str]], sent: Sent) -> Iterator[tuple[int, int]]:
    """The runs of words [first, last) that stand in the request, each as long as possible."""
    at = 0
    while at + _SHORTEST_RUN <= len(words):
        first, last = at, at + _SHORTEST_RUN
        if not _stand(text, words, first, last, sent):
            at += _STRIDE
            continue
        while first and _stand(text, words, first - 1, last, sent):
            first -= 1
        while last < len(words) and _stand(text, words, first, last + 1, sent):
            last += 1
        yield first, last
        at = last


def _stand(text: str, words: Sequence[re.Match[str]], first: int, last: int, sent: Sent) -> bool:
    return sent.holds(text[words[first].start() : words[last - 1].end()])


def _is_number(words: Sequence[re.Match[str]], at: int) -> bool:
    return at < len(words) and len(words[at].group()) > 1 and words[at].group().isdigit()


def _letters(text: str) -> bytes:
    plain = unicodedata.normalize("NFKC", text).lower()
    return plain.encode("utf-8", "replace").translate(None, _NOT_ALNUM)


def _strings(value: Any, depth: int) -> Iterator[str]:
    """Every string in decoded JSON, with the JSON that some of them hold left as it is."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict) and depth:
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item, depth - 1)
