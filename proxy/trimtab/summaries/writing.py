"""One summary call: what is asked, what is made of the answer. Knows nothing of stores and of other callers.

`Author` turns an earlier summary and a piece of conversation into the next summary, or into one word for
why not. Every call is told to `on_call`, also one that failed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

import msgspec

from trimtab.context.estimate.tokens import text_tokens
from trimtab.errors import TrimtabError
from trimtab.summaries.accept import OVERSIZE, Replaced, refusal
from trimtab.summaries.chain import Chain
from trimtab.summaries.completion import Complete, Completion, CompletionRequest
from trimtab.summaries.pieces import tokens
from trimtab.summaries.render import Entry, mark_of, written
from trimtab.summaries.script import LATIN, spoken

EARLIER = "earlier summary"
MADE = "made"


class SummaryCall(msgspec.Struct, frozen=True):
    """One call that was made, for metrics and logs."""

    model: str
    hint: str
    result: str = ""  # "made", a reason of `accept.REASONS`, or the code of an error
    answered: bool = True  # whether the model answered at all
    tokens_in: int = 0  # as reported, or estimated where nothing is reported
    tokens_out: int = 0
    cached: int = 0  # of tokens_in, from the provider's prefix cache
    seconds: float = 0.0
    ride: bool = False
    background: bool = False


class Author:
    def __init__(self, complete: Complete, timeout_s: float, on_call: Callable[[SummaryCall], None]) -> None:
        self._complete = complete
        self._timeout = timeout_s
        self._on_call = on_call

    async def write(
        self, chain: Chain, earlier: str, piece: Sequence[Entry], *, ride: bool = False
    ) -> tuple[str | None, SummaryCall]:
        """The summary of `earlier` and `piece` (None: refused, the call says why)."""
        parts = [Entry(EARLIER, earlier), *piece] if earlier else list(piece)
        users = [entry.body for entry in piece if entry.by_user] or ([earlier] if earlier else [])
        request = _riding(chain, users) if ride else _separate(chain, parts, users)
        start = time.monotonic()
        answer, failure = await self._ask(request)
        replaced = Replaced(tokens(parts), chain.wanted.max_tokens, users)
        call = msgspec.structs.replace(
            _report(chain, request, answer),
            result=failure or refusal(answer, replaced) or MADE,
            answered=failure is None,
            seconds=time.monotonic() - start,
        )
        self._on_call(call)
        return (answer.text.strip() if call.result == MADE else None), call

    async def _ask(self, request: CompletionRequest) -> tuple[Completion, str | None]:
        """The answer; or an empty one, and the code of what went wrong."""
        try:
            async with asyncio.timeout(self._timeout):
                return await self._complete(request), None
        except TimeoutError:
            return Completion(""), "upstream_timeout"
        except TrimtabError as error:
            return Completion(""), error.code or error.type


def _separate(chain: Chain, parts: Sequence[Entry], users: list[str]) -> CompletionRequest:
    """Our own system prompt alone; the conversation between marks; the task said again behind it."""
    mark = mark_of(parts, chain.tenant.id)
    asked = chain.prompt.after(chain.wanted.max_tokens, _named(users))
    text = "\n".join((chain.prompt.before(mark), written(parts, mark), asked))
    messages = (_message("system", chain.prompt.text), _message("user", text))
    return CompletionRequest(chain.writer.model, messages, _room(chain), chain.writer.shown)


def _riding(chain: Chain, users: list[str]) -> CompletionRequest:
    ride = chain.writer.ride
    assert ride is not None
    asked = _message("user", chain.prompt.riding(chain.wanted.max_tokens, _named(users)))
    return CompletionRequest(
        chain.writer.model,
        (*ride.messages, asked),
        _room(chain),
        chain.writer.shown,
        fields=ride.fields,
        ride=True,
    )


def _room(chain: Chain) -> int:
    """Tokens of the answer: more than is asked for in words. What a model thinks counts, too, and what
    stops short is lost.
    """
    return OVERSIZE * chain.wanted.max_tokens


def _report(chain: Chain, request: CompletionRequest, answer: Completion) -> SummaryCall:
    estimate = sum(text_tokens(message.decode()) for message in request.messages) if answer.text else 0
    return SummaryCall(
        model=request.model,
        hint=chain.wanted.hint,
        tokens_in=answer.prompt_tokens or estimate,
        tokens_out=answer.completion_tokens or text_tokens(answer.text),
        cached=answer.cached_tokens,
        ride=request.ride,
        background=chain.background,
    )


def _named(users: list[str]) -> str | None:
    """The script to name in the request; Latin ones go without saying."""
    script = spoken(users)
    return None if script == LATIN else script


def _message(role: str, content: str) -> bytes:
    return msgspec.json.encode({"role": role, "content": content})
