"""One summary call: what is asked, and what becomes of the answer. It knows no store and no other caller.

`Author` turns an earlier summary and a piece of conversation into the next summary, or gives one word for what failed.
`on_call` gets a report of every call, also of one that failed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import Raw

from trimtab.context.estimate.tokens import text_tokens
from trimtab.dialects.chat import CHAT
from trimtab.dialects.dialect import Dialect
from trimtab.errors import TrimtabError
from trimtab.summaries.accept import OVERSIZE, Source, rejection
from trimtab.summaries.chain import Chain
from trimtab.summaries.completion import Complete, Completion, CompletionRequest
from trimtab.summaries.pieces import entry_tokens
from trimtab.summaries.render import Entry, choose_mark, rendered
from trimtab.summaries.script import LATIN, users_script

EARLIER = "earlier summary"
MADE = "made"


class SummaryCall(msgspec.Struct, frozen=True):
    """One call that was made, for metrics."""

    model: str
    result: str  # "made", a reason of `accept.REASONS`, or the code or the cause of an error
    answered: bool  # False when the call failed without an answer
    tokens_in: int  # as reported, or estimated where nothing is reported
    tokens_out: int
    seconds: float
    background: bool = False  # no request waited for it


class Author:
    """Writes summaries with `complete`, which makes one call and may take `timeout_s`."""

    def __init__(self, complete: Complete, timeout_s: float, on_call: Callable[[SummaryCall], None]) -> None:
        self._complete = complete
        self._timeout = timeout_s
        self._on_call = on_call

    async def write(
        self, chain: Chain, earlier: str, piece: Sequence[Entry], *, append: bool = False
    ) -> tuple[str | None, SummaryCall]:
        """The summary of `earlier` and `piece`; None when it was rejected or the call failed. With `append` the
        instruction is appended to the request that was sent.
        """
        parts = [Entry(EARLIER, earlier), *piece] if earlier else list(piece)
        users = [entry.body for entry in piece if entry.by_user] or ([earlier] if earlier else [])
        request = _appended(chain, users) if append else _separate(chain, parts, users)
        start = time.monotonic()
        answer, failure = await self._ask(request)
        source = Source(entry_tokens(parts), chain.wanted.max_tokens, users)
        call = SummaryCall(
            model=request.model,
            result=failure or rejection(answer, source) or MADE,
            answered=failure is None,
            tokens_in=answer.prompt_tokens or _estimated(request, answer),
            tokens_out=answer.completion_tokens or text_tokens(answer.text),
            seconds=time.monotonic() - start,
            background=chain.writer.background,
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
            return Completion(""), error.detail.get("cause") or error.code or error.type


def _separate(chain: Chain, parts: Sequence[Entry], users: list[str]) -> CompletionRequest:
    """Our own system prompt, the conversation between marks, and the task once more after it."""
    mark = choose_mark(parts, chain.tenant.id)
    closing = chain.prompt.closing(chain.wanted.max_tokens, _script(users))
    text = "\n".join((chain.prompt.opening(mark), rendered(parts, mark), closing))
    messages = (_message("system", chain.prompt.text), _message("user", text))
    writer = chain.writer
    return _request(chain, messages, dialect=writer.dialect)


def _appended(chain: Chain, users: list[str]) -> CompletionRequest:
    """The request that was sent, with the instruction as one more message."""
    prefix = chain.writer.prefix
    assert prefix is not None
    instruction = _message("user", chain.prompt.appended(chain.wanted.max_tokens, _script(users)))
    messages = (*prefix.messages, instruction)
    return _request(chain, messages, prefix.fields, chain.writer.dialect)


def _request(
    chain: Chain, messages: tuple[bytes, ...], fields: Mapping[str, Raw] | None = None, dialect: Dialect = CHAT
) -> CompletionRequest:
    writer = chain.writer
    tokens, credential, carried = _answer_tokens(chain), writer.sent_credential, writer.sent_carried
    return CompletionRequest(writer.model, messages, tokens, credential, fields or {}, dialect, carried)


def _answer_tokens(chain: Chain) -> int:
    """Tokens of the answer: more than the words ask for. Reasoning counts too, and an answer cut short is lost."""
    return OVERSIZE * chain.wanted.max_tokens


def _estimated(request: CompletionRequest, answer: Completion) -> int:
    return sum(text_tokens(message.decode()) for message in request.messages) if answer.text else 0


def _script(users: list[str]) -> str | None:
    """The script to name in the request; Latin is not named."""
    script = users_script(users)
    return None if script == LATIN else script


def _message(role: str, content: str) -> bytes:
    return msgspec.json.encode({"role": role, "content": content})
