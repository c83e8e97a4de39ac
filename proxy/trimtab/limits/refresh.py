"""Making the model table from LiteLLM's `model_prices_and_context_window.json`, a shortened form of it, or another of
our tables: checked, and written in the form that `table` reads.

LiteLLM's `max_input_tokens` is the window for most models and an input cap for some: where input plus output is a
window that OpenAI states (272,000 + 128,000 = 400,000; 922,000 + 128,000 = 1,050,000), it is a cap. Entries without a
window (images, speech, embeddings) are left out.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from trimtab.limits.table import Entry, Table

LITELLM = "BerriAI/litellm model_prices_and_context_window.json"
_WINDOWS = frozenset({400_000, 1_050_000})  # OpenAI's model pages, gpt-5 and later
_LARGEST = 100_000_000  # tokens; a larger number is an error of the source
_CHAT = frozenset({None, "chat", "completion", "responses"})
_PRICES = (  # our column, LiteLLM's price per token
    ("input", "input_cost_per_token"),
    ("output", "output_cost_per_token"),
    ("cache_read", "cache_read_input_token_cost"),
)


def refresh_table(data: bytes) -> bytes:
    """The bytes of a table that `Table` reads, made from `data`. Raises ValueError, with the reason, when `data` holds
    no model. A source and a date in `data` are kept; otherwise the table is LiteLLM's of today."""
    if b'"models":{\n' in data:
        return _ours(data)
    try:
        raw = msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.DecodeError as e:
        raise ValueError(f"not a model table: {e}") from None
    models = raw["models"] if isinstance(raw.get("models"), dict) else raw
    entries = [entry for name, fields in sorted(models.items()) if (entry := entry_of(name, fields))]
    head = {
        "source": _text(raw, "source") or LITELLM,
        "licence": _text(raw, "licence") or "MIT",
        "date": _text(raw, "date") or datetime.datetime.now(datetime.UTC).date().isoformat(),
    }
    return write(head, entries)


def entry_of(name: str, fields: object) -> Entry | None:
    """The entry for one model in LiteLLM's form, or None when it has no window. Prices per token become prices per
    million tokens."""
    if not isinstance(fields, dict) or fields.get("mode") not in _CHAT or name == "sample_spec":
        return None
    window = _tokens(fields.get("max_input_tokens")) or _tokens(fields.get("max_tokens"))
    if window is None:
        return None
    output = _tokens(fields.get("max_output_tokens"))
    capped = output is not None and window + output in _WINDOWS and output < window
    context = window + (output or 0) if capped else window
    prices = (_price(fields, short, long) for short, long in _PRICES)
    return Entry(name, context, output, window if capped else None, *prices)


def write(head: Mapping[str, str], entries: Iterable[Entry]) -> bytes:
    """The bytes of a table: a head, then one model a line. Raises ValueError without entries."""
    lines = [_line(entry) for entry in entries]
    if not lines:
        raise ValueError("not a model table: it has no model with a window")
    named = {**head, "columns": ["context_size", "max_output_tokens", "max_input_tokens", *dict(_PRICES)]}
    return msgspec.json.encode(named)[:-1] + b',\n"models":{\n' + b",\n".join(lines) + b"\n}}\n"


def _line(entry: Entry) -> bytes:
    name, *numbers = msgspec.structs.astuple(entry)
    return msgspec.json.encode(name) + b":" + msgspec.json.encode(numbers)


def _ours(data: bytes) -> bytes:
    try:
        table = Table(data)
        entries = [entry for entry in table.entries() if 1 <= entry.context_size <= _LARGEST]
    except msgspec.DecodeError as e:
        raise ValueError(f"not a model table: {e}") from None
    head = {"source": table.origin.source, "licence": table.origin.licence, "date": table.origin.date}
    return write(head, entries)


def _text(raw: Mapping[str, Any], key: str) -> str | None:
    value = raw.get(key)
    return value if isinstance(value, str) else None


def _tokens(value: object) -> int | None:
    """A plausible number of tokens (LiteLLM has some as floats and strings), else None."""
    try:
        number = int(float(value)) if isinstance(value, int | float | str) else 0
    except (ValueError, OverflowError):  # "unknown", NaN, infinity
        return None
    return number if 1 <= number <= _LARGEST else None


def _price(fields: Mapping[str, Any], per_million: str, per_token: str) -> float | None:
    value = fields.get(per_million)
    scaled = fields.get(per_token) if value is None else None
    if isinstance(scaled, int | float):
        value = round(scaled * 1e6, 6)
    return float(value) if isinstance(value, int | float) and 0 <= value < 1e6 else None
