"""`stream_options.include_usage`, where this proxy sets it on a stream whose client did not: a field of ours, which is
ours to take back.

An upstream that does not know the field may refuse it with any status and any wording, fail, close the connection, or
answer with a stream of nothing or of an error. So until an upstream has taken the field once, an answer that fails is
asked for once more without it; later only an error that names it is. Behind a gateway one model's server may take it
and another's not: what one has shown holds for its model, and for the others until they show more.

The event that the field brings is for us and never reaches the client. What an upstream sends unasked always does: an
upstream that does is not asked, and its event is known by what only it can have added.
"""

from __future__ import annotations

from typing import Any

import msgspec

from trimtab.exchange.verdict import Verdict

_MOST_MODELS = 256  # of one upstream that are remembered
_NAMES = (b"stream_options", b"include_usage")
# Not about a field: the caller, the rate, a size.
_OTHER_STATUS = frozenset({401, 402, 403, 407, 408, 413, 429})
# Fields of the event that the field brings (OpenAI, vLLM, llama.cpp, Cerebras); others are of interest to a client.
_USUAL = frozenset(
    {"id", "object", "created", "model", "choices", "usage", "system_fingerprint", "service_tier", "provider"}
    | {"timings", "time_info", "obfuscation", "nvext"}
)
_UNASKED = ("cost", "cost_details", "is_byok")  # OpenRouter's, in the usage that it sends in any case


class IncludeUsage:
    """What is known of each upstream, by its name, and of its models. One for the process."""

    def __init__(self) -> None:
        self._refuses = _Models()
        self._takes = _Models()
        self._sends_unasked: set[str] = set()

    def may_set(self, upstream: str, model: str = "") -> bool:
        """False for an upstream that refused it, for this model or for all so far, and for one that reports its usage
        in any case."""
        if upstream in self._sends_unasked or self._refuses.has(upstream, model):
            return False
        return not self._refuses.has_any(upstream) or self._takes.has_any(upstream)

    def takes(self, upstream: str, model: str = "") -> bool:
        """True where it was taken once; without a `model`, for any."""
        return self._takes.has(upstream, model) if model else self._takes.has_any(upstream)

    def is_to_blame(self, upstream: str, model: str, verdict: Verdict) -> bool:
        """True when an answer may have failed because of the field."""
        if verdict.overflow is not None:
            return False
        if verdict.blames(_NAMES):
            return True
        if self.takes(upstream, model) or verdict.answer.status in _OTHER_STATUS:
            return False
        if self._takes.has_any(upstream):  # another model's server: it may be stricter, but fails no more than others
            return 400 <= verdict.answer.status < 500
        return verdict.empty or verdict.reports_error

    def learn(
        self, upstream: str, model: str = "", *, was_set: bool, again: bool = False, reported: bool = False
    ) -> None:
        """An answer came as it should. `again`: after one with the field had failed; `reported`: with its usage, which
        nobody had asked for unless the field `was_set`."""
        if again:
            self._refuses.add(upstream, model)
        elif was_set:
            self._takes.add(upstream, model)
        elif reported:
            self._sends_unasked.add(upstream)


class _Models:
    """Models of upstreams, the newest of each: their names come from clients."""

    def __init__(self) -> None:
        self._of: dict[str, dict[str, None]] = {}

    def has(self, upstream: str, model: str) -> bool:
        return model in self._of.get(upstream, ())

    def has_any(self, upstream: str) -> bool:
        return upstream in self._of

    def add(self, upstream: str, model: str) -> None:
        models = self._of.setdefault(upstream, {})
        if model not in models and len(models) >= _MOST_MODELS:
            del models[next(iter(models))]
        models[model] = None


class _Event(msgspec.Struct):
    choices: Any = None
    usage: Any = None


def is_for_us(data: bytes) -> bool:
    """True for the event that the field brings: a usage, no choice (an empty list, null, or no such field), and nothing
    that a client may want."""
    if b'"usage"' not in data:
        return False
    try:
        event = msgspec.json.decode(data, type=_Event)
        if event.choices or not event.usage or not isinstance(event.usage, dict):  # one without a count is not ours
            return False
        fields = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return False
    wanted = any(name not in _USUAL and bytes(value) != b"null" for name, value in fields.items())
    return not wanted and not any(name in event.usage for name in _UNASKED)
