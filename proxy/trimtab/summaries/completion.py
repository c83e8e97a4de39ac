"""What is asked of the model that writes a summary, and what it answered. The call itself is made elsewhere.

Two forms. The separate call: our own system prompt, the conversation as marked data, no tools. The ride:
what the provider has read already and keeps in its prefix cache, up to the end of the span, and our
instruction after it; the other fields of the body stay as they were, with `tool_choice` "none".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import msgspec
from msgspec import Raw


class Ride(msgspec.Struct, frozen=True):
    """A request that was sent, as far as a summary can ride on it."""

    messages: tuple[bytes, ...]  # as they were sent, from the first to the last of the span: whole units
    fields: Mapping[str, Raw] = {}  # the body beside the messages (tools and the like), as sent


class CompletionRequest(msgspec.Struct, frozen=True):
    """One call. Not streamed, one choice."""

    model: str
    messages: tuple[bytes, ...]  # raw JSON
    max_tokens: int  # of the answer, thinking included; who calls may lower it to what the model takes
    credential: bytes = b""  # the client's own `Authorization`
    fields: Mapping[str, Raw] = {}  # of the ride; empty for a separate call
    ride: bool = False

    def __repr__(self) -> str:
        return f"CompletionRequest(model={self.model!r}, {len(self.messages)} messages, ride={self.ride})"


class Completion(msgspec.Struct, frozen=True):
    """One answer. Tokens as the upstream reports them; 0 where it does not."""

    text: str
    finish_reason: str | None = "stop"
    has_tool_call: bool = False
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0  # of the prompt, served from the provider's prefix cache

    def __repr__(self) -> str:
        return f"Completion({len(self.text)} characters, finish_reason={self.finish_reason!r})"


# Raises a TrimtabError for whatever is not a completion: unreachable, refused, rate limited, not understood.
Complete = Callable[[CompletionRequest], Awaitable[Completion]]
