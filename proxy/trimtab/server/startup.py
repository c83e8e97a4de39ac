"""What keeps the server from starting, looked for before it listens: each check is a name and a function that raises.

A mistake that shows only with the first request, as a missing summary or an error for a client, is found by the wrong
person. `trimtab check` runs the same checks, so it fails where `trimtab serve` would.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec

from trimtab.context.policy import Hint
from trimtab.conversations.settings import open_archive
from trimtab.errors import ConfigError, TrimtabError
from trimtab.limits import Table, from_environment
from trimtab.settings import Settings, check_exposure
from trimtab.store.settings import open_store
from trimtab.summaries.prompts import Prompt, load_prompts
from trimtab.summaries.settings import CompactionSettings
from trimtab.telemetry.trace import tracing
from trimtab.upstream.client import tls_of
from trimtab.upstream.routing import route


def check_startable(settings: Settings) -> None:
    """Raises ConfigError with everything that keeps the server from starting, a line for each."""
    if found := [text for _, text in failing(settings)]:
        raise ConfigError("\n".join(found))


def failing(settings: Settings) -> Iterator[tuple[str, str]]:
    """The name of each check that fails, and what is wrong."""
    for name, check in CHECKS.items():
        try:
            check(settings)
        except TrimtabError as error:
            yield name, error.message


def prompts_of(compaction: CompactionSettings) -> Mapping[Hint, Prompt]:
    """The prompts to use, the operator's own before those that ship. Raises ConfigError when they cannot be read."""
    own = Path(compaction.prompts) if compaction.prompts else None
    if own is not None and not own.is_dir():
        raise ConfigError(f"[compaction] prompts: {own} is not a directory. Name one, or remove the line.")
    try:
        return load_prompts(own)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"[compaction] prompts: cannot read a prompt in {own}: {error}.") from error


def _certificates(settings: Settings) -> None:
    for upstream in settings.upstreams:
        tls_of(upstream)


def _environment(settings: Settings) -> None:
    from_environment(os.environ)


def _table(settings: Settings) -> None:
    path = settings.limits.table
    try:
        if not any([*Table.load(path).entries()]):  # each is decoded: a broken one would be found by a request
            raise ValueError("it lists no model")
    except (OSError, ValueError, msgspec.DecodeError) as error:
        reason = error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError(
            f"[limits] table: cannot read {path or 'the table in the package'}: {reason}. Make a new one with "
            "trimtab models --refresh FILE, or remove the line."
        ) from error


def _summaries(settings: Settings) -> None:
    compaction = settings.compaction
    if compaction is None:
        return
    prompts_of(compaction)
    if compaction.model != "same":
        try:
            route(compaction.model, settings.upstreams)
        except TrimtabError as error:
            raise ConfigError(f"[compaction] model: {error.message}") from error


def _redis(settings: Settings) -> None:
    open_store(settings.redis)


def _conversations(settings: Settings) -> None:
    if settings.conversations is not None:
        open_archive(settings.conversations, settings.redis)


def _traces(settings: Settings) -> None:
    tracing(settings.telemetry).close()


CHECKS: dict[str, Callable[[Settings], None]] = {
    "exposure": check_exposure,
    "environment": _environment,
    "model table": _table,
    "certificates": _certificates,
    "summaries": _summaries,
    "redis address": _redis,
    "conversations": _conversations,
    "traces": _traces,
}
