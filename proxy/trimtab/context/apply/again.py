"""Writing again what was written before, without reading it: a message after an edit, and the extract.

Every request of a conversation repeats what was removed and shortened in the one before. What is remembered are origins
(see `origins`): places in messages, found by the digests of these, and never text. What is sent is cut from the request
at hand.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import msgspec
from msgspec import Raw

from trimtab.context.apply.clearing import cleared_result
from trimtab.context.apply.format import AsChat, Format
from trimtab.context.apply.origins import Origins, in_json, origins_of, quickly, slices, written_again
from trimtab.context.apply.rewrite import placeholder
from trimtab.context.edits import Excerpt, Stage
from trimtab.context.estimate.tokens import text_tokens
from trimtab.context.extract.parts import Opened
from trimtab.context.extract.render import Line, lines
from trimtab.context.read.memo import Memo
from trimtab.context.read.views import PLACEHOLDER_TOKENS, View, digest
from trimtab.context.texts import EXTRACT

_ENTRY = 16  # pieces that weigh as much as another entry of the memo
_AT_ONCE = 24  # lines of an extract whose origins are looked for during one request
_FIRST = in_json(EXTRACT)
_BREAK = in_json("\n")
_ONCE = array("i")  # written once; origins that cost more than writing are looked for the second time
_NEVER = array("i")  # a part of it stands nowhere as it is written

Part = tuple[int, Origins]
"""A part of a line: the message it is from, and its pieces there."""


class Known(msgspec.Struct, frozen=True):
    """A line of an extract that was written before. Without parts it is written as the first time."""

    excerpts: tuple[Excerpt, ...]
    parts: tuple[Part, ...] = ()


class _Kept(msgspec.Struct, frozen=True):
    """An extract that was written before; its excerpts are those of one choice, so their messages are the same."""

    excerpts: Sequence[Excerpt]
    known: tuple[Known, ...] = ()
    is_whole: bool = False


def is_exact(source: bytes, format: Format) -> bool:
    """True for a message whose digest is of all its bytes. One with a mark for the provider's cache has the digest of
    others, in which nothing stands in the same place: it is read each time."""
    return format.canonical(source) is source


def rewritten(raw: bytes | Raw, key: bytes, stage: Stage, amount: int, format: Format, memo: Memo | None) -> bytes:
    """A message after an edit; `key`: its digest."""
    source = bytes(raw)
    if memo is None or not key or not is_exact(source, format):
        return format.rewrite(raw, stage, amount)
    known: Origins | None = memo.get((key, stage, amount, "origins"))
    if known:
        return written_again(known, source)
    written = format.rewrite(raw, stage, amount)
    if known is None or known is _ONCE:
        known = (quickly(written, source) or _ONCE) if known is None else (origins_of(written, source) or _NEVER)
        _remember(memo, key, stage, amount, known)
    return written


def measured(raw: bytes | Raw, view: View, stage: Stage, amount: int, format: Format, memo: Memo) -> int:
    """Tokens of a message after an edit, which is made only where its size cannot be found without it."""
    if stage == "cleared" and amount < 0 and view.shape == "text":
        return view.cleared_tokens - PLACEHOLDER_TOKENS + text_tokens(placeholder(amount))
    if stage == "cleared" and view.shape == "text":
        source = bytes(raw)
        found = cleared_result(source, format.result_field, amount)
        if found is not None:
            if found.origins is not None and is_exact(source, format):
                _remember(memo, view.digest, stage, amount, found.origins)
            return view.cleared_tokens - PLACEHOLDER_TOKENS + found.content_tokens
    return format.view(rewritten(raw, view.digest, stage, amount, format, memo)).tokens


def _remember(memo: Memo, key: bytes, stage: Stage, amount: int, origins: Origins) -> None:
    memo.put((key, stage, amount, "origins"), origins, 1 + len(origins) // (2 * _ENTRY))


def extract(
    messages: Sequence[bytes | Raw], excerpts: Sequence[Excerpt], summary: str, format: Format, memo: Memo | None
) -> bytes:
    """The extract as it stands in a JSON string; b"" where nothing is left of it beside the `summary`."""
    known = None if memo is None else known_lines(excerpts, summary, memo)
    if known is None:
        found = [*lines(Opened(AsChat(messages, format)), excerpts, summary)]
        if memo is not None:
            _learn(found, messages, excerpts, summary, format, memo)
        return _joined([in_json(str(line)) for line in found])
    sources = Sources(messages, format)
    return _joined([line_again(line, sources, summary) for line in known])


def known_lines(excerpts: Sequence[Excerpt], summary: str, memo: Memo) -> tuple[Known, ...] | None:
    """The lines of an extract, where all of them are known."""
    kept: _Kept | None = memo.get(_place(excerpts, summary))
    return kept.known if kept is not None and kept.excerpts is excerpts and kept.is_whole else None


def _place(excerpts: Sequence[Excerpt], summary: str) -> tuple[int, bytes, str]:
    return id(excerpts), digest(summary.encode("utf-8", "surrogatepass")) if summary else b"", "lines"


def _learn(
    found: Sequence[Line],
    messages: Sequence[bytes | Raw],
    excerpts: Sequence[Excerpt],
    summary: str,
    format: Format,
    memo: Memo,
) -> None:
    """Look for the origins of some more lines, from the second time on: all at once would take longer than the whole
    request."""
    place = _place(excerpts, summary)
    kept: _Kept | None = memo.get(place)
    if kept is None or kept.excerpts is not excerpts:
        memo.put(place, _Kept(excerpts))
        return
    sources = Sources(messages, format)
    known = (*kept.known, *[_known(line, sources) for line in found[len(kept.known) :][:_AT_ONCE]])
    memo.put(place, _Kept(excerpts, known, len(known) == len(found)), 1 + len(known))


def _joined(lines: list[bytes]) -> bytes:
    return _BREAK.join([_FIRST, *lines]) if lines else b""


class Sources:
    """The bytes of messages that are cut from, each found once; none of one that is not exact."""

    def __init__(self, messages: Sequence[bytes | Raw], format: Format) -> None:
        self.messages, self.format = messages, format
        self._found: dict[int, bytes] = {}

    def __getitem__(self, i: int) -> bytes:
        found = self._found.get(i)
        if found is None:
            found = bytes(self.messages[i])
            found = self._found[i] = found if is_exact(found, self.format) else b""
        return found


def _known(line: Line, sources: Sources) -> Known:
    index, call = line.excerpts[0].index, line.excerpts[0].call
    caller = call[0] if call is not None else index
    if caller == index:
        whole = origins_of(in_json(str(line)), sources[index])
        return Known(line.excerpts, ((index, whole),) if whole else ())
    title = origins_of(in_json(f"{line.title} "), sources[caller])
    text = origins_of(in_json(line.text), sources[index])
    return Known(line.excerpts, ((caller, title), (index, text)) if title and text else ())


def line_again(known: Known, sources: Sources, summary: str) -> bytes:
    """A line that was written before."""
    if known.parts and all([sources[i] for i, _ in known.parts]):
        return b"".join([piece for i, of in known.parts for piece in slices(of, sources[i])])
    opened = Opened(AsChat(sources.messages, sources.format))
    return b"".join([in_json(str(line)) for line in lines(opened, known.excerpts, summary)])
