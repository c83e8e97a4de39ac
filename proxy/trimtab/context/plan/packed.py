"""The state of a replay as a record, for conversations that were not used lately (see `read.shelf`).

A state takes some 350 bytes a message as an object, and 10 in a record: most of it are small numbers, and the reasons
of edits, which repeat.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import msgspec

from trimtab.context.plan.state import State
from trimtab.context.read.structure import structure
from trimtab.context.read.views import View

# The structure is cut again, in half a millisecond for 900 messages; the others are given where it is unpacked.
_APART = {"structure", "policy", "budget", "fixed", "memo", "format", "ordered"}
_KEPT = [field for field in msgspec.structs.fields(State) if field.name not in _APART]
_Kept: Any = msgspec.defstruct("_Kept", [("fixed_now", int), *((f.name, f.type) for f in _KEPT)], array_like=True)

_encode = msgspec.msgpack.Encoder().encode
_decode: Any = msgspec.msgpack.Decoder(_Kept).decode


def packed(state: State) -> bytes:
    """A record of a state."""
    return zlib.compress(_encode(_Kept(state.fixed, *[getattr(state, field.name) for field in _KEPT])), 1)


def unpacked(record: bytes, fresh: State, views: Sequence[View]) -> State:
    """The state in a record. `fresh`: the state before the first message, under the same terms; `views`: of the
    messages that had been walked."""
    kept = _decode(zlib.decompress(record))
    for field in _KEPT:
        setattr(fresh, field.name, getattr(kept, field.name))
    fresh.fixed, fresh.ordered, fresh.structure = kept.fixed_now, None, structure((), views)
    return fresh
