"""The model table: limits and prices of thousands of models, as one block of bytes.

The file is JSON with one model a line, `"name":[context_size, max_output, max_input, input, output, cache_read]`. It
is never decoded as a whole: a lookup finds the name in the bytes (0.1 to 1 ms; the caller keeps the answer) and
decodes that line. In memory it takes two copies of the file, half a megabyte, where dictionaries would take several.
A name matches only as a whole. A name without its provider finds the entries of all providers; the maker's own entry
counts, else the window that most of them state.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import msgspec

from trimtab.limits.limit import Claim
from trimtab.limits.names import VENDORS, forms
from trimtab.limits.settings import Prices
from trimtab.resources import resource


class Entry(msgspec.Struct, frozen=True):
    """One model, in tokens; prices are USD per million tokens; None where the source has no figure."""

    name: str
    context_size: int
    max_output_tokens: int | None = None
    max_input_tokens: int | None = None
    input: float | None = None
    output: float | None = None
    cache_read: float | None = None


class Found(msgspec.Struct, frozen=True):
    """An entry, and how the name led to it ("" for an exact match). `own` is False for an entry of another provider:
    its limits are a guess then, and its prices say nothing."""

    entry: Entry
    how: str
    own: bool = True

    def claim(self) -> Claim:
        """What the entry claims; prices only where `own`."""
        entry = self.entry
        prices = Prices(entry.input, entry.output, entry.cache_read)
        return Claim(
            source="bundled",
            detail=f"{entry.name} via {self.how}" if self.how else entry.name,
            context_size=entry.context_size,
            max_output_tokens=entry.max_output_tokens,
            max_input_tokens=entry.max_input_tokens,
            trusted=self.own,
            prices=prices if self.own and prices != Prices() else None,
        )


class Origin(msgspec.Struct, frozen=True):
    """Where a table comes from; `models` counts its entries."""

    source: str
    licence: str
    date: str
    models: int


class _Head(msgspec.Struct):
    source: str = "unknown"
    licence: str = "unknown"
    date: str = "unknown"


_Numbers = tuple[int, int | None, int | None, float | None, float | None, float | None]
_numbers = msgspec.json.Decoder(_Numbers)

# Entries of the makers themselves: a name without provider, or their own provider. Others may serve a smaller window.
_OWN = re.compile(
    rf"^(?!(?:[\w-]+\.)?(?:{VENDORS})\.)[^/]+$"
    r"|^(?:xai|mistral|deepseek|gemini|moonshot|zai|dashscope|minimax|perplexity|cohere|meta_llama)/"
)
_AFTER = re.compile(rb'(-(?:20\d\d-\d\d-\d\d|20\d{6})|@20\d{6})?(?:-v\d+:\d+)?":')
_BEFORE = re.compile(rb'(?:"|/|[/".](?:%s)\.)$' % VENDORS.encode())
_BEFORE_BYTES = 16
_LONGEST_NAME = 256  # characters; no real name is longer


class Table:
    """A model table. Raises ValueError when `data` is not one (`refresh_table` makes one)."""

    def __init__(self, data: bytes) -> None:
        start = data.find(b'"models":{\n')
        if start < 0:
            raise ValueError("not a model table: it has no list of models")
        self._head = msgspec.json.decode(data[:start].rstrip().rstrip(b",") + b"}", type=_Head)
        self._lines = data[start + len(b'"models":{') :]
        self._lower = self._lines.lower()

    @classmethod
    def load(cls, path: str | Path | None = None) -> Table:
        """The table at `path`, or the one in the package. Raises OSError when it cannot be read, ValueError when it
        is not a table."""
        return cls(Path(path or resource("model_limits.json")).read_bytes())

    @cached_property
    def origin(self) -> Origin:
        """Where the table comes from."""
        head = self._head
        return Origin(head.source, head.licence, head.date, self._lines.count(b'":['))

    def find(self, name: str, provider: str = "") -> Found | None:
        """The entry for a model's name in one of its forms, or None. `provider` is the upstream's name and goes
        first: for an upstream named `groq`, what Groq serves counts."""
        if not (name.isprintable() and 0 < len(name) <= _LONGEST_NAME):
            return None
        if provider and (entry := self._exact(f"{provider}/{name}".lower())):
            return Found(entry, "the upstream's name")
        others: list[Found] = []
        for form, how in forms(name):
            if entry := self._exact(form):
                return Found(entry, how)
            if found := self._elsewhere(form):
                entry, by = found
                others.append(Found(entry, ", ".join(filter(None, (how, by))), _is_own(entry)))
        return min(others, key=lambda found: not found.own, default=None)

    def entries(self) -> Iterator[Entry]:
        """Every entry, in the order of the file."""
        for line in self._lines.splitlines():
            if line.startswith(b'"'):
                yield _entry(line)

    def _exact(self, name: str) -> Entry | None:
        at = self._lower.find(b"\n" + msgspec.json.encode(name) + b":")
        return self._entry_at(at + 1) if at >= 0 else None

    def _elsewhere(self, name: str) -> tuple[Entry, str] | None:
        """The entry to choose among those named `name` after a provider; without these, among those that add only
        a date."""
        same: list[Entry] = []
        dated: list[Entry] = []
        for start, date in self._occurrences(msgspec.json.encode(name)[1:-1]):
            (dated if date else same).append(self._entry_at(start))
        if same:
            return _choose(same), "provider's entry"
        return (_choose(dated), "dated entry") if dated else None

    def _occurrences(self, wanted: bytes) -> Iterator[tuple[int, bool]]:
        """(start of the line, True when a date follows) wherever `wanted` is a whole name in a key."""
        at = self._lower.find(wanted)
        while at >= 0:
            end = _AFTER.match(self._lower, at + len(wanted))
            if end and _BEFORE.search(self._lower[max(0, at - _BEFORE_BYTES) : at]):
                yield self._lower.rfind(b"\n", 0, at) + 1, end[1] is not None
            at = self._lower.find(wanted, at + len(wanted))

    def _entry_at(self, start: int) -> Entry:
        return _entry(self._lines[start : self._lines.find(b"\n", start)])


def _entry(line: bytes) -> Entry:
    name, _, numbers = line.rstrip(b",").partition(b'":')
    return Entry(msgspec.json.decode(name + b'"', type=str), *_numbers.decode(numbers))


def _choose(entries: list[Entry]) -> Entry:
    """The maker's own entry, else one with the window that most providers state, the smaller one of a tie."""
    own = [entry for entry in entries if _is_own(entry)] or entries
    count = Counter(entry.context_size for entry in own)
    return min(own, key=lambda entry: (-count[entry.context_size], entry.context_size, entry.name))


def _is_own(entry: Entry) -> bool:
    return _OWN.match(entry.name) is not None
