"""What one source says about a model, whatever the source: the fields it answers, the others None."""

from __future__ import annotations

import msgspec

from trimtab.limits.limit import Source
from trimtab.limits.settings import ModelSettings, Prices
from trimtab.limits.table import Found


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens; `detail` says where in the source it stands."""

    source: Source
    detail: str = ""
    context_size: int | None = None
    max_output_tokens: int | None = None
    max_input_tokens: int | None = None
    budget: int | None = None
    prices: Prices | None = None
    trusted: bool = True


def from_settings(source: Source, detail: str, settings: ModelSettings) -> Claim:
    return Claim(source=source, detail=detail, **msgspec.structs.asdict(settings))


def from_table(found: Found) -> Claim:
    """The bundled table's claim; prices only where the entry is the model's own or its maker's."""
    entry = found.entry
    prices = Prices(entry.input, entry.output, entry.cache_read)
    return Claim(
        source="bundled",
        detail=f"{entry.name} via {found.how}" if found.how else entry.name,
        context_size=entry.context_size,
        max_output_tokens=entry.max_output_tokens,
        max_input_tokens=entry.max_input_tokens,
        trusted=found.own,
        prices=prices if found.own and prices != Prices() else None,
    )
