"""What an operator may write about a model, and how a name finds its table.

`[models."gpt-4*"]` in the configuration, every key optional. One table answers for a model: the one whose
key has the most literal characters among those that match the name as written or one of its other forms
(`names.forms`), and a name written out in full beats every glob. Tables are not merged with one another:
what an exact table leaves out comes from the next *source*, never from a wider glob, so that a family's
cap cannot lower a model that was configured by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Literal

import msgspec

from trimtab.limits.names import forms
from trimtab.units import PositiveSeconds, Price, Seconds, Tokens


class Prices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """USD per million tokens; `cache_read` is for tokens served from the prefix cache."""

    input: Price | None = None
    output: Price | None = None
    cache_read: Price | None = None


class ModelSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One `[models."NAME"]` table; tokens and USD per million tokens."""

    context_size: Tokens | None = None
    max_output_tokens: Tokens | None = None
    max_input_tokens: Tokens | None = None
    budget: Tokens | None = None
    prices: Prices | None = None


class LimitsSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The `[limits]` table: how limits are found out; seconds."""

    discover: bool = True
    first_wait_s: Seconds = 0.3  # the first request to a model waits at most this long for what its upstream says
    refresh_s: PositiveSeconds = 600.0
    learned_ttl_s: PositiveSeconds = 86_400.0
    ask_usage: Literal["auto", "never", "always"] = "auto"  # ask streams for their usage: while a factor is unknown
    table: str | None = None  # path of a refreshed model table; left out: the one that ships


_WILD = frozenset("*?[")


def settings_for(models: Mapping[str, ModelSettings], name: str) -> tuple[str, ModelSettings] | None:
    """The table that answers for `name` with its key, or None. Case is not looked at."""
    if not models:
        return None
    if name in models:
        return name, models[name]
    found = list(_matches(models, name))
    if not found:
        return None
    key = max(found)[-1]
    return key, models[key]


def _matches(models: Mapping[str, ModelSettings], name: str) -> Iterator[tuple[int, bool, str]]:
    """(literal characters, written in full, key) of each key that matches; the greatest is most specific."""
    for form, _ in forms(name):
        for key in models:
            if form == key.lower():
                yield len(key), True, key
            elif fnmatchcase(form, key.lower()):
                yield _literals(key), False, key


def _literals(glob: str) -> int:
    return sum(c not in _WILD for c in glob)
