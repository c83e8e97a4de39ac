"""What one exchange leaves behind: one frozen record, made once at the end, also of a request that failed.

Metrics, the log line and the span are three readings of this record and see nothing else, so they can never
disagree. It holds names, counts, tokens and seconds: no text of a conversation, no key, no tenant.

The vocabularies are closed (`Outcome`, `Stage`, ...), because their words become label values.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Outcome = Literal[
    "passed",  # forwarded as received
    "shaped",  # forwarded with at least one edit
    "observed",  # planned and reported, forwarded as received
    "bypassed",  # the client asked for its own bytes
    "unparsed",  # not a body we can read; forwarded as received
    "planned",  # the plan endpoint: nobody was called
    "refused",  # the conversation does not fit; a person decides, not an outage
    "client_error",  # another 4xx of ours: not JSON, unknown key, unknown model, too large
    "upstream_rejected",  # the upstream answered 4xx
    "upstream_error",  # the upstream answered 5xx, could not be reached, or broke off a stream
    "overloaded",  # the limit of work in flight was reached
    "abandoned",  # the client went away
    "failed",  # a bug of ours
]
Stage = Literal["truncated", "cleared", "summarized", "dropped", "squeezed"]
SummaryResult = Literal["none", "hit", "miss", "fallback", "background"]
PathKind = Literal["chat", "plan", "passthrough"]
RunOutcome = Literal["made", "rejected", "failed"]

# What can be done without when it fails: a request is then served as if that part were not there.
PARTS = ("plan", "summary")
STAGES: tuple[Stage, ...] = ("truncated", "cleared", "summarized", "dropped", "squeezed")


class Prices(Struct, frozen=True):
    """US dollars a million tokens. `cached_input` is what a token served from the prefix cache costs."""

    input: float
    output: float
    cached_input: float


class Tokens(Struct, frozen=True):
    """The plan's figures in tokens; `budget` is what is usable for input, 0 when nothing was planned."""

    original: int = 0
    sent: int = 0
    budget: int = 0
    context_size: int = 0
    limit_source: str = ""


class Edited(Struct, frozen=True):
    """What one stage did: messages touched and tokens taken out."""

    stage: Stage
    count: int
    tokens: int


class Usage(Struct, frozen=True):
    """Tokens as the upstream reported them; `cached` is None where it says nothing of a prefix cache."""

    prompt: int
    completion: int = 0
    cached: int | None = None


class SummaryRun(Struct, frozen=True):
    """One call of the summary model: tokens it read and wrote, seconds it took.

    `rejected` is an answer that was not usable (empty, cut off, larger than its source), `failed` no answer.
    """

    model: str
    outcome: RunOutcome
    seconds: float
    tokens_in: int = 0
    tokens_out: int = 0
    prices: Prices | None = None


class Timing(Struct, frozen=True):
    """Seconds. `overhead` is all that was ours before the upstream was called, `shaping` the plan in it."""

    duration: float = 0.0
    shaping: float | None = None
    overhead: float | None = None
    upstream_ttfb: float | None = None


class Exchange(Struct, frozen=True, kw_only=True):
    """One request from arrival to its last byte.

    `status` is the one the client got, `upstream_status` the upstream's: None when it was not called, 0 when
    it did not answer. `upstream` is the name the model was routed to, also when it was not called.
    `summary_runs` are those this request waited for; runs in the background are reported when they end.
    `estimate_ratio` is reported / estimated prompt tokens. `prefix_break` says why this request starts in
    another way than the one before ("" when it does not). `fail_open` names the part that failed and was done
    without.
    """

    request_id: str
    path: PathKind
    outcome: Outcome
    status: int
    model: str = ""
    upstream: str = ""
    upstream_status: int | None = None
    stream: bool = False
    profile: str = ""
    hint: str = ""
    tokens: Tokens = Tokens()
    edits: tuple[Edited, ...] = ()
    summary: SummaryResult = "none"
    summary_runs: tuple[SummaryRun, ...] = ()
    usage: Usage | None = None
    estimate_ratio: float | None = None
    prefix_break: str = ""
    timing: Timing = Timing()
    retries: int = 0
    overflow: bool = False
    fail_open: str = ""
    error_code: str = ""
    prices: Prices | None = None
