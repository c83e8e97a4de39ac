"""The table `[compaction]`. Left out, no summaries are made."""

from __future__ import annotations

import msgspec

from trimtab.units import Count, PositiveSeconds, PositiveShare, Tokens

WEEK_S = 7 * 24 * 3600.0


class CompactionSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How summaries are made and kept. `docs/summaries.md` has the measurements behind the defaults."""

    model: str = "same"  # the request's own model, or a named faster one
    max_summary_tokens: Tokens = 2_000  # the size a summary is asked for and counted at
    precompact_share: PositiveShare = 0.8  # of the budget: from here the next summary is made ahead of need
    summary_wait_s: PositiveSeconds = 20.0  # the longest a request waits for a summary; then it goes on without one
    call_timeout_s: PositiveSeconds = 60.0  # the longest one summary call may take
    max_read_tokens: Tokens = 100_000  # the most one summary call reads; a longer span is read in pieces
    max_background: Count = 4  # summaries made ahead of need at the same time, per process
    ttl_s: PositiveSeconds = WEEK_S  # a summary not used for this long is forgotten
    memory_mb: Count = 64  # MiB of the in-process store: the only one without Redis, and used while Redis is away
    ride_prefix: bool = True  # with the same model: append the instruction to the prefix the provider has cached
    prompts: str = ""  # a directory with your own prompts, one file for each hint; the others ship with trimtab
    secret: str = ""  # mixed into the key that seals stored summaries, beside each tenant's credential

    def __repr__(self) -> str:
        return f"CompactionSettings(model={self.model!r}, max_summary_tokens={self.max_summary_tokens})"
