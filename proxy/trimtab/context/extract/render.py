"""From excerpts to the text that stands in the gap: a line for each source, in the order of the history.

A person and a model read it alike: `read_file(src/app.py) -> def main(): … return code` is what a call brought,
`edit(src/app.py) with: …` what it was given, `user: …` what someone wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter

from trimtab.context.edits import Excerpt
from trimtab.context.extract.names import mentions
from trimtab.context.extract.parts import Opened, Part, one_line
from trimtab.context.texts import EXTRACT, LEFT_OUT


def render(opened: Opened, excerpts: Sequence[Excerpt], summary: str = "") -> str:
    """The extract: its first line says what it is, the others hold the excerpts. "" when there are none. An excerpt of
    which the `summary` holds every name is left out."""
    lines = [EXTRACT]
    for (index, number), found in groupby(excerpts, key=_place):
        of = list(found)
        source = opened.part(index, number)
        texts = [] if source is None else [source.text[e.start : e.stop] for e in of]
        kept = [one_line(text) for text in texts if not (summary and _is_named(text, summary))]
        if source is not None and kept:
            call = opened.part(*of[0].call) if of[0].call else None
            lines.append(f"{_source(source, call)} {LEFT_OUT.join(kept)}")
    return "\n".join(lines) if len(lines) > 1 else ""


_place = attrgetter("index", "part")


def _is_named(text: str, summary: str) -> bool:
    """True when a text has names and the summary has all of them."""
    names = [text[start:stop] for start, stop in mentions(text)]
    return bool(names) and all(name in summary for name in names)


def _source(part: Part, call: Part | None) -> str:
    """Where an excerpt is from: a call, what a call brought, or who wrote it."""
    if part.kind == "call":
        return f"{part.title} with:"
    if part.kind == "result":
        return f"{call.title if call else 'tool'} ->"
    return f"{part.kind}:"
