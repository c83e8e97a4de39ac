"""From excerpts to the text that stands in the gap: a line for each source, in the order of the history.

A person and a model read it alike: `read_file(src/app.py) -> def main(): … return code` is what a call brought,
`edit(src/app.py) with: …` what it was given, `user: …` what someone wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from msgspec import Raw

from trimtab.context.edits import Excerpt
from trimtab.context.extract.parts import Part, one_line, parts
from trimtab.context.texts import EXTRACT, LEFT_OUT


def render(messages: Sequence[bytes | Raw], excerpts: Sequence[Excerpt]) -> str:
    """The extract: its first line says what it is, the others hold the excerpts. "" when there are none."""
    opened: dict[int, list[Part]] = {}

    def part(index: int, number: int) -> Part | None:
        if index not in opened:
            opened[index] = parts(messages[index])
        return opened[index][number] if number < len(opened[index]) else None

    lines = [EXTRACT]
    for (index, number), found in groupby(excerpts, key=lambda e: (e.index, e.part)):
        of = list(found)
        source = part(index, number)
        if source is not None:
            call = part(*of[0].call) if of[0].call else None
            kept = LEFT_OUT.join([one_line(source.text[e.start : e.stop]) for e in of])
            lines.append(f"{_source(source, call)} {kept}")
    return "\n".join(lines) if len(lines) > 1 else ""


def _source(part: Part, call: Part | None) -> str:
    """Where an excerpt is from: a call, what a call brought, or who wrote it."""
    if part.kind == "call":
        return f"{part.title} with:"
    if part.kind == "result":
        return f"{call.title if call else 'tool'} ->"
    return f"{part.kind}:"
