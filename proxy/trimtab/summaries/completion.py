"""What is asked of the model that writes a summary, and its answer. The call itself is made in `exchange`.

There are two forms. A separate call: our own system prompt, the conversation as marked data, no tools. An appended
call: the request that the provider has read and keeps in its prefix cache, up to the end of the last segment, and our
instruction as one more message; the other fields of the body stay as they were, with `tool_choice` "none".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import msgspec
from msgspec import Raw

from trimtab.dialects.chat import CHAT
from trimtab.dialects.dialect import Dialect
from trimtab.wire.request import NOTHING_CARRIED, Carried


class SentPrefix(msgspec.Struct, frozen=True):
    """The beginning of a request that was sent, to which an instruction can be appended."""

    messages: tuple[bytes, ...]  # as they were sent, up to the end of the last segment: whole units
    fields: Mapping[str, Raw] = {}  # the body beside the messages (tools and the like), as sent


class CompletionRequest(msgspec.Struct, frozen=True):
    """One call. Not streamed, one choice."""

    model: str
    messages: tuple[bytes, ...]  # raw JSON
    max_tokens: int  # of the answer, with its reasoning; the caller may lower it to what the model takes
    credential: bytes = b""  # the client's own `Authorization`, byte for byte; empty: none is sent
    fields: Mapping[str, Raw] = {}  # of the prefix it is appended to; empty for a separate call
    dialect: Dialect = CHAT  # in which the model is called
    carried: Carried = NOTHING_CARRIED  # over from the client's request

    def __repr__(self) -> str:
        return f"CompletionRequest(model={self.model!r}, {len(self.messages)} messages)"


class Completion(msgspec.Struct, frozen=True):
    """One answer. Tokens as the upstream reports them; 0 where it reports none."""

    text: str
    finish_reason: str | None = "stop"
    has_tool_call: bool = False
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def __repr__(self) -> str:
        return f"Completion({len(self.text)} characters, finish_reason={self.finish_reason!r})"


# Raises a TrimtabError when the answer is not a completion: unreachable, refused, rate limited, unreadable.
Complete = Callable[[CompletionRequest], Awaitable[Completion]]
