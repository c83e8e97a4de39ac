"""What an operator may write about models: in the configuration file, and in two variables of the environment.

A table `[models."gpt-4*"]` has only optional keys. One table answers for a model: among the tables whose key matches
the name as written or one of its other forms (`names.forms`), the one with the most literal characters; an exact name
beats every glob. Tables are not merged: what an exact table leaves out comes from the next *source*, never from a
wider glob, so that a family's cap cannot lower a model that is configured by its name.

LLM_CONTEXT_SIZE and LLM_MAX_OUTPUT_TOKENS (tokens) hold for every model. They are read once, at start; a value that
is not a positive number stops the start, because a limit that is silently ignored is found out in production.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Literal

import msgspec

from trimtab.errors import ConfigError
from trimtab.limits.names import forms
from trimtab.units import PositiveSeconds, Price, Seconds, Tokens


class Prices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """USD per million tokens; `cache_read` is for tokens that the provider reads from its prefix cache."""

    input: Price | None = None
    output: Price | None = None
    cache_read: Price | None = None


class ModelSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One `[models."NAME"]` table, in tokens."""

    context_size: Tokens | None = None
    max_output_tokens: Tokens | None = None
    max_input_tokens: Tokens | None = None
    budget: Tokens | None = None
    prices: Prices | None = None


class LimitsSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The `[limits]` table: how limits are found out. Times are seconds."""

    discover: bool = True
    first_wait_s: Seconds = 0.3  # the longest that the first request to an upstream waits for discovery
    refresh_s: PositiveSeconds = 600.0  # between two rounds of discovery
    learned_ttl_s: PositiveSeconds = 86_400.0  # how long a lesson lasts
    ask_usage: Literal["auto", "never", "always"] = "auto"  # ask streams for usage; auto: while a factor is unknown
    table: str | None = None  # path of a refreshed model table; None: the one in the package


_WILD = frozenset("*?[")


def settings_for(models: Mapping[str, ModelSettings], name: str) -> tuple[str, ModelSettings] | None:
    """The key and the table that answer for `name`, or None. Letter case does not matter."""
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
    """(literal characters, is exact, key) of each key that matches; the greatest is the most specific."""
    for form, _ in forms(name):
        for key in models:
            if form == key.lower():
                yield len(key), True, key
            elif fnmatchcase(form, key.lower()):
                yield _literals(key), False, key


def _literals(glob: str) -> int:
    return sum(c not in _WILD for c in glob)


def from_environment(environ: Mapping[str, str]) -> ModelSettings:
    """The limits that the environment states. Raises ConfigError for a value that is not a positive number."""
    return ModelSettings(
        context_size=_tokens(environ, "LLM_CONTEXT_SIZE"),
        max_output_tokens=_tokens(environ, "LLM_MAX_OUTPUT_TOKENS"),
    )


def _tokens(environ: Mapping[str, str], name: str) -> int | None:
    text = environ.get(name, "")
    if not text.strip():
        return None
    digits = text.strip().replace("_", "").replace(",", "")
    if not (digits.isascii() and digits.isdigit() and 0 < int(digits) < 10**10):
        raise ConfigError(
            f"The environment variable {name} must be a positive number of tokens, such as 128000. It is {text[:40]!r}."
        )
    return int(digits)
