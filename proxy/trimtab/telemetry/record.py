"""The record: the numbers of one exchange, frozen, made once at its end, also when it failed.

Metrics, log and trace are made from this record and nothing else, so they never disagree. It holds names, counts,
tokens and seconds; never the text of a conversation, a key or a tenant. `Outcome`, `Stage` and the other vocabularies
are closed lists, because their words become label values.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Outcome = Literal[
    "passed",  # forwarded as received
    "shaped",  # forwarded with at least one edit
    "observed",  # planned and reported, forwarded as received
    "bypassed",  # forwarded as received, because the client asked for that
    "unmanaged",  # a path that is not managed, or a conversation that the server holds; forwarded as received
    "unparsed",  # the body could not be read; forwarded as received
    "planned",  # the plan endpoint: no upstream was called
    "stored",  # a stored conversation or response: no upstream was called
    "refused",  # the conversation does not fit: a decision for a person, not an outage
    "client_error",  # another 4xx of ours: not JSON, unknown key, unknown model, too large
    "upstream_rejected",  # the upstream answered 4xx
    "upstream_error",  # the upstream answered 5xx, could not be reached, or broke off a stream
    "overloaded",  # too many requests or bytes in flight
    "abandoned",  # the client disconnected
    "failed",  # a bug of ours
]
Stage = Literal["truncated", "cleared", "summarized", "dropped", "squeezed"]
SummaryResult = Literal["none", "hit", "miss", "fallback", "background"]
PathKind = Literal["chat", "responses", "messages", "plan", "conversations", "passthrough"]
# Paths of requests that a model answers; `chat` is what OpenTelemetry calls the operation of all three.
GENERATING: frozenset[PathKind] = frozenset(("chat", "responses", "messages"))
RunOutcome = Literal["made", "rejected", "failed"]
CallEnd = Literal["answered", "broken_off", "cancelled"]

# Parts of the proxy that may fail: the request is then served without them.
PARTS = ("plan", "apply")
STAGES: tuple[Stage, ...] = ("truncated", "cleared", "summarized", "dropped", "squeezed")


class UpstreamCall(Struct, frozen=True, gc=False, omit_defaults=True):
    """One call of an upstream, its retries included: `retries` are the tries that failed before the last one.

    `status` is 0 without an answer. `broken_off`: the answer began and did not end. `cancelled`: the client left, or
    the server stopped, before the answer began.
    """

    upstream: str
    status: int = 0
    retries: int = 0
    end: CallEnd = "answered"


class Prices(Struct, frozen=True, gc=False):
    """US dollars per million tokens. `cached_input` is the price of a token read from the prefix cache."""

    input: float
    output: float
    cached_input: float


class Tokens(Struct, frozen=True, gc=False, omit_defaults=True):
    """The plan's figures, in tokens; `budget` is 0 when nothing was planned, `sent` is 0 when nothing was sent, or when
    the request was refused."""

    original: int = 0
    sent: int = 0
    budget: int = 0
    context_size: int = 0
    limit_source: str = ""


class Compaction(Struct, frozen=True, gc=False):
    """Tokens that the summary model read and wrote while this request waited for it."""

    tokens_in: int = 0
    tokens_out: int = 0


class Edited(Struct, frozen=True, gc=False):
    """What one stage did: the number of messages it edited, the tokens it removed, and the tokens of the extract that
    is kept of them."""

    stage: Stage
    count: int
    tokens: int
    extract: int = 0


class Usage(Struct, frozen=True, gc=False):
    """Tokens as the upstream reported them; `cached` is None where it does not report cached tokens."""

    prompt: int
    completion: int = 0
    cached: int | None = None


class SummaryRun(Struct, frozen=True, gc=False):
    """One call of the summary model: the tokens it read and wrote, the seconds it took.

    `rejected`: the answer was not usable (empty, cut off, larger than its source). `failed`: there was no answer, or an
    error. `reason` is why: `cut_off`, `upstream_timeout`, `500 server_error`; "" for one that was made.
    `background`: no request waited for it.
    """

    model: str
    outcome: RunOutcome
    seconds: float
    tokens_in: int = 0
    tokens_out: int = 0
    reason: str = ""
    background: bool = False
    prices: Prices | None = None


class Timing(Struct, frozen=True, gc=False, omit_defaults=True):
    """Seconds. `overhead` is our own time before the upstream was called; `shaping`, a part of it, is the plan's."""

    duration: float = 0.0
    shaping: float | None = None
    overhead: float | None = None
    upstream_ttfb: float | None = None


class Exchange(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One request, from its arrival to the last byte of its answer.

    `trace_id` is that of our span, or of the client's trace. `method` and `endpoint` (the path, without its query) are
    set where the path is not managed.

    `status` is the client's. `calls` are the calls of the upstream in their order: a second one follows an overflow.
    `upstream` is where the model was routed to, even when it was not called; `upstream_request_id` is the id that it
    gave the request. `estimate_ratio` is counted / estimated
    prompt tokens. `prefix_break` is the stage that first changed messages which earlier requests had sent, or "".
    `summary_cause` is why a summary was missing. `fail_open` names the part that failed and was left out.
    """

    request_id: str
    trace_id: str = ""
    path: PathKind
    method: str = ""
    endpoint: str = ""
    outcome: Outcome
    status: int
    model: str = ""
    upstream: str = ""
    upstream_request_id: str = ""
    calls: tuple[UpstreamCall, ...] = ()
    stream: bool = False
    profile: str = ""
    hint: str = ""
    tokens: Tokens = Tokens()
    edits: tuple[Edited, ...] = ()
    summary: SummaryResult = "none"
    summary_cause: str = ""
    compaction: Compaction = Compaction()
    usage: Usage | None = None
    estimate_ratio: float | None = None
    prefix_break: str = ""
    timing: Timing = Timing()
    overflow: bool = False
    fail_open: str = ""
    error_code: str = ""
    prices: Prices | None = None

    @property
    def upstream_status(self) -> int | None:
        """The status of the last call: None when the upstream was not called, 0 when it did not answer."""
        return self.calls[-1].status if self.calls else None

    @property
    def retries(self) -> int:
        """The retries of all calls."""
        return sum([call.retries for call in self.calls])
