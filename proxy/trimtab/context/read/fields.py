"""Fields of a message that no format names: reasoning under a name of its own, pictures beside the content, what a
gateway adds. An upstream that knows them reads them, so they cost tokens; they are sent as they came.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Raw

from trimtab.context.estimate.parts import part_tokens

_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_SHORT = 8  # bytes: of null, a truth value, an index


def unknown_tokens(raw: bytes | Raw, known: Iterable[str], counted: Iterable[str]) -> int:
    """Tokens of the fields of a message that are not among the `known` ones. Texts that are `counted` already cost
    nothing here: gateways repeat the reasoning in fields of their own. Never raises."""
    try:
        fields = _fields(raw)
        unknown = [(name, msgspec.json.decode(fields[name])) for name in fields if _is_unknown(name, fields, known)]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return 0
    texts = frozenset(counted)
    return sum([_tokens(name, value, texts) for name, value in unknown])


def _is_unknown(name: str, fields: dict[str, Raw], known: Iterable[str]) -> bool:
    return name not in known and len(fields[name]) > _SHORT


def _tokens(name: str, value: object, counted: frozenset[str]) -> int:
    if name == "images" and isinstance(value, list):  # of Ollama
        return sum([part_tokens({"type": "image", "image_url": image}) for image in value])
    return part_tokens(_without(value, counted)) if value else 0


def _without(value: object, texts: frozenset[str], depth: int = 8) -> object:
    """A JSON value without these texts, as deep as gateways put them."""
    if isinstance(value, str):
        return "" if value in texts else value
    if not texts or not depth:
        return value
    if isinstance(value, dict):
        return {key: _without(item, texts, depth - 1) for key, item in value.items()}
    return [_without(item, texts, depth - 1) for item in value] if isinstance(value, list) else value
