"""One call of a summary model: the body that is sent, and the completion in its answer. Anything else raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from trimtab.context.read.texts import text_of
from trimtab.dialects.dialect import Dialect
from trimtab.errors import UpstreamError
from trimtab.exchange.calls import Calls
from trimtab.exchange.offload import read_beside
from trimtab.exchange.spellings import deployment_path
from trimtab.exchange.summary_window import SummaryWindow
from trimtab.exchange.verdict import is_heavy
from trimtab.summaries.completion import Completion, CompletionRequest
from trimtab.telemetry import UpstreamCall
from trimtab.upstream.families import output_field
from trimtab.wire import problem
from trimtab.wire.usage import usage_of
from trimtab.wire.values import has_more_values


async def complete(
    calls: Calls,
    count: Callable[[UpstreamCall], None],
    request: CompletionRequest,
    window: SummaryWindow | None = None,
) -> Completion:
    """One call of a summary model; `count` gets a report of it, and its `window` learns from a refusal. Raises a
    TrimtabError for anything but a completion; its `cause` in `detail` is the status, and the code of the upstream's
    error."""
    upstream, dialect = calls.route(request.model), request.dialect
    bound = {output_field(request.model): request.max_tokens}
    fields: dict[str, Any] = {**request.fields, "model": request.model, **bound}
    if "tools" in request.fields:
        fields["tool_choice"] = "none"
    fields |= {"messages": [msgspec.Raw(m) for m in request.messages], "stream": False}
    report = UpstreamCall(upstream.name)
    try:
        body = msgspec.json.encode(dialect.asked(fields, request.max_tokens))
        path = deployment_path(request.carried.path, request.model) or dialect.path
        reply = await calls.reply(upstream, "POST", path, body, request.credential, dialect, request.carried)
        report = UpstreamCall(upstream.name, reply.status, reply.retries)
    except UpstreamError as error:
        report = UpstreamCall(upstream.name, 0, error.retries)
        raise
    finally:
        count(report)
    if reply.status != 200:
        if window is not None:
            window.learn(request, reply.status, reply.body)
        cause = f"{reply.status} {problem.code_of(reply.body)}".rstrip()
        raise UpstreamError(f"The summary model answered with an error: {cause}.", detail={"cause": cause})
    return await read_beside(is_heavy(reply.body, ""), _completion, reply.body, dialect)


_LONGEST = 1 << 20  # bytes of an answer: the longest summary has a twentieth of it, with its reasoning
_MOST_VALUES = 100_000


class _Message(msgspec.Struct):
    content: str | list[Any] | None = None
    tool_calls: list[Any] | None = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str | None = None
    error: Any = None


class _Answer(msgspec.Struct):
    choices: list[_Choice]
    error: Any = None


def _completion(given: bytes, dialect: Dialect) -> Completion:
    """What an answer says. One of more than a megabyte, or of very many values, is none: it is read no further."""
    try:
        if len(given) > _LONGEST or has_more_values(given, _MOST_VALUES):
            raise msgspec.DecodeError("too large")
        raw = dialect.answered(given)
        answer = msgspec.json.decode(raw, type=_Answer)
        choice = answer.choices[0]
    except (msgspec.DecodeError, IndexError) as error:
        raise UpstreamError("The summary model's answer is not a completion.") from error
    if answer.error or choice.error:
        raise UpstreamError("The summary model's answer contains an error.")
    usage = usage_of(raw)
    return Completion(
        text=_text_of(choice.message.content),
        finish_reason=choice.finish_reason,
        has_tool_call=bool(choice.message.tool_calls),
        prompt_tokens=(usage.prompt_tokens if usage else None) or 0,
        completion_tokens=(usage.completion_tokens if usage else None) or 0,
    )


def _text_of(content: str | list[Any] | None) -> str:
    """The text of an answer; some models that think answer in parts, and thoughts are not text."""
    if isinstance(content, list):
        return "".join(filter(None, map(text_of, content)))
    return _without_thoughts(content or "")


def _without_thoughts(text: str) -> str:
    """What follows the thoughts that some servers leave in the text of an answer: between two marks, or before the
    closing mark alone where the chat template wrote the opening one. Empty where they never end."""
    thought, closed, answer = text.partition("</think>")
    opened = thought.lstrip().startswith("<think>")
    return answer if opened or (closed and "<think>" not in thought) else text
