"""From excerpts to the text that stands in the gap: a line for each source, in the order of the history.

A person and a model read it alike: `read_file(src/app.py) -> def main(): … return code` is what a call brought,
`edit(src/app.py) with: …` what it was given, `user: …` what someone wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter

import msgspec

from trimtab.context.edits import Excerpt
from trimtab.context.extract.names import mentions
from trimtab.context.extract.parts import Opened, Part, one_line
from trimtab.context.texts import EXTRACT, LEFT_OUT, SOURCES


class Line(msgspec.Struct, frozen=True, gc=False):
    """A line of the extract: the excerpts of one text, after a title, which says where they are from."""

    excerpts: tuple[Excerpt, ...]
    title: str
    text: str

    def __str__(self) -> str:
        return f"{self.title} {self.text}"


def render(opened: Opened, excerpts: Sequence[Excerpt], summary: str = "") -> str:
    """The extract: its first line says what it is, the others hold the excerpts. "" when there are none. An excerpt of
    which the `summary` holds every name is left out."""
    found = [line_of(opened, tuple(of), summary) for _, of in groupby(excerpts, key=PLACE)]
    kept = [str(line) for line in found if line is not None]
    return "\n".join([EXTRACT, *kept]) if kept else ""


PLACE = attrgetter("index", "part")
"""The text that an excerpt is of."""


def line_of(opened: Opened, of: tuple[Excerpt, ...], summary: str = "") -> Line | None:
    """The line of the excerpts of one text; None where the `summary` has all that it says."""
    first = of[0]
    source = opened.part(first.index, first.part)
    if source is None:
        return None
    texts = [source.text[e.start : e.stop] for e in of]
    kept = [one_line(text) for text in texts if not (summary and _is_named(text, summary))]
    if not kept:
        return None
    call = opened.part(*first.call) if first.call else None
    return Line(of, _title(source, call), LEFT_OUT.join(kept))


def _is_named(text: str, summary: str) -> bool:
    """True when a text has names and the summary has all of them."""
    names = [text[start:stop] for start, stop in mentions(text)]
    return bool(names) and all(name in summary for name in names)


def _title(part: Part, call: Part | None) -> str:
    """Where an excerpt is from: a call, what a call brought, or who wrote it."""
    if part.kind == "call":
        return part.title + SOURCES["call"]
    if part.kind == "result":
        return call.title + SOURCES["result"] if call else SOURCES["unknown"]
    return SOURCES[part.kind]
