"""The error for a conversation that cannot be sent: its figures, and the clients that recognize it."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from tests.exchange.requests import WINDOW, shaping
from tests.support.conversations import agent_run, chat, prose
from trimtab.context.policy import Policy
from trimtab.context.read.history import history
from trimtab.context.read.memo import Memo
from trimtab.dialects.dialect import Dialect
from trimtab.dialects.messages import MESSAGES
from trimtab.dialects.responses import RESPONSES
from trimtab.errors import ConversationTooLong
from trimtab.exchange.decide import Shaping, decide
from trimtab.exchange.refusals import interrupted, refusal, still_too_long
from trimtab.limits import Limit
from trimtab.overflow.classify import Overflow, classify
from trimtab.wire import problem

GUESSED = Limit(context_size=8_192, max_output_tokens=1_024, trusted=False)


def question(tokens: int, **fields: Any) -> Shaping:
    messages = [{"role": "system", "content": prose(200)}, {"role": "user", "content": prose(tokens)}]
    return shaping(messages, **fields)


def refused(made: Shaping) -> ConversationTooLong:
    error = refusal(made)
    assert error is not None
    return error


def test_the_refusal_gives_the_numbers_and_what_to_do() -> None:
    error = refused(question(20_000))
    counts = error.detail["tokens"]
    assert (counts["limit"], counts["context_size"], counts["reserved_output"]) == (7_168, 8_192, 1_024)
    assert counts["question"] > 15_000 > counts["system"] > 100
    assert counts["tools"] == 0
    assert error.detail["limit_source"] == "configured"
    assert (error.status, error.code, error.param) == (400, "context_length_exceeded", "messages")
    assert error.message.startswith(
        "The prompt is too long: this model's maximum context length is 8,192 tokens, of which 7,168 can be used for "
        f"the input. About {counts['system'] + counts['question']:,} tokens cannot be shortened: "
    )
    assert f"the current question ({counts['question']:,})" in error.message
    assert error.message.endswith(
        "Start a new chat for the next step, or shorten the question; what was built so far remains."
    )


def test_what_takes_most_of_the_room_is_what_to_shorten() -> None:
    tools = [{"type": "function", "function": {"name": f"t{i}", "description": prose(2_000)}} for i in range(8)]
    assert "Send fewer tools" in refused(question(100, tools=tools)).message
    messages = [{"role": "system", "content": prose(20_000)}, {"role": "user", "content": "go"}]
    assert "Shorten the system prompt" in refused(shaping(messages)).message
    schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"description": prose(20_000)}}}
    error = refused(question(100, response_format=schema)).message
    assert "the response format and other fields (" in error
    assert error.endswith("Shorten the response format, or use a model with a larger context window.")


@pytest.mark.parametrize("dialect", [RESPONSES, MESSAGES], ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("form", ["text", "blocks"])
def test_a_system_prompt_beside_the_messages_is_named_as_one(dialect: Dialect, form: str) -> None:
    field = "instructions" if dialect is RESPONSES else "system"
    given: Any = prose(20_000) if form == "text" else [{"type": "text", "text": prose(20_000)}]
    body = {"model": "m", dialect.listed: [{"role": "user", "content": "go"}], field: given, "tools": [{"name": "f"}]}
    asked, memo = dialect.decode(msgspec.json.encode(body), None), Memo(view=dialect.format.view)
    read = history(asked.messages, asked.extras, memo, instructed=asked.instructed)
    error = refused(decide(asked, read, Policy(), WINDOW, 1.0, memo, dialect=dialect))
    counts = error.detail["tokens"]
    assert counts["system"] > 15_000 > 100 > counts["tools"] > 0
    assert f"the system prompt ({counts['system']:,}), the tools ({counts['tools']:,}) and the current" in error.message
    assert "Shorten the system prompt" in error.message


UPSTREAMS: list[tuple[dict[str, Any], str]] = [
    (
        {"limit": 4_096, "actual": 6_000, "actual_kind": "input"},
        "4,096 tokens, and the upstream counted 6,000 tokens in",
    ),
    (
        {"limit": 4_096, "actual": 6_000, "actual_kind": "total"},
        "4,096 tokens, and the upstream counted 6,000 tokens in the shortened request, the requested output included",
    ),
    ({"limit": 4_096, "actual": 5_000, "lower_bound": True}, "and the upstream counted at least 5,000 tokens in"),
    ({"limit": 4_096}, "4,096 tokens, and the upstream refused the shortened request of about "),
    ({}, "8,192 tokens, and the upstream refused the shortened request of about "),
]


@pytest.mark.parametrize(("reported", "text"), UPSTREAMS)
def test_where_the_upstream_refused_what_should_fit_its_figures_are_given(reported: dict[str, Any], text: str) -> None:
    error = still_too_long(shaping(agent_run(30)), Overflow("too long, it said", **reported))
    assert text in error.message
    assert "(0)" not in error.message
    assert "about 0" not in error.message
    assert "question" not in error.detail["tokens"]
    assert (error.detail["upstream"], error.detail.get("reported")) == ("too long, it said", reported.get("actual"))
    assert error.detail.get("upstream_limit") == reported.get("limit")


def test_a_guessed_limit_is_not_given_as_the_models() -> None:
    error = still_too_long(shaping(chat(1), limit=GUESSED), Overflow("too long"))
    assert "maximum context length is not known (assumed: 8,192 tokens), and the upstream refused this" in error.message


# -- the clients that recognize it -------------------------------------------------------------------------------

# litellm 1.110.2, litellm_core_utils/exception_mapping_utils.py, `is_error_str_context_window_exceeded` (MIT): it looks
# for these in the error in lower case and raises ContextWindowExceededError, on which its fallbacks act.
LITELLM = ("this model's maximum context length is", "prompt is too long")
# langchain-openai 1.7.4, chat_models/base.py, `_handle_openai_bad_request` (MIT): in the text of the SDK's error, which
# has the whole body. It raises OpenAIContextOverflowError.
LANGCHAIN = "context_length_exceeded"
# @mariozechner/pi-ai 0.73.1, dist/utils/overflow.js (MIT): one of OVERFLOW_PATTERNS, none of NON_OVERFLOW_PATTERNS. It
# compacts the conversation then.
PI = re.compile(r"prompt is too long|context[_ ]length[_ ]exceeded", re.IGNORECASE)
NOT_PI = re.compile(r"^(Throttling error|Service unavailable):|rate limit|too many requests", re.IGNORECASE)

ERRORS = [
    refused(question(20_000)),
    still_too_long(shaping(agent_run(30)), Overflow("x", limit=4_096, actual=6_000, actual_kind="input")),
    still_too_long(shaping(chat(1), limit=GUESSED), Overflow("x")),
    interrupted(shaping(chat(1)), Overflow("x")),
]


@pytest.mark.parametrize("error", ERRORS)
def test_clients_recognize_an_overflow(error: ConversationTooLong) -> None:
    body = problem.envelope(error, "r").decode()
    assert all(words in error.message.lower() for words in LITELLM)
    assert LANGCHAIN in body
    assert PI.search(error.message)
    assert not NOT_PI.search(body)


@pytest.mark.parametrize("error", ERRORS)
def test_another_trimtab_in_front_takes_it_as_an_overflow_with_the_same_limit(error: ConversationTooLong) -> None:
    found = classify(400, problem.envelope(error, "r"))
    assert found is not None
    limit = int(re.search(r"(?:is|assumed:) ([\d,]+) tokens", error.message).group(1).replace(",", ""))  # type: ignore[union-attr]
    assert found.limit in (limit, error.detail.get("upstream_limit"), None)
