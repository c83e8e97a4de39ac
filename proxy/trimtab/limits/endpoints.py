"""What the answer of each endpoint states about models: bytes in, claims out, no I/O.

Servers state the same few facts under many names and at many depths, so an entry of a listing is searched for known
field names. The smallest window counts: OpenRouter lists a model's 1,048,576 and, below `top_provider`, the 262,000 of
one provider that serves it. Another one may take the request, so that is a guess: it shapes and does not refuse. What
a model was *trained* for (`n_ctx_train`) is not what is served, and is not read. A number out of range is ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from trimtab.limits.limit import Claim
from trimtab.wire.values import has_more_values

LEAST, MOST = 256, 100_000_000  # tokens; a number out of this range is not believed

# Fields of a model's entry in a listing, at any depth of objects.
WINDOW = (
    "max_model_len",  # vLLM, SGLang
    "loaded_context_length",  # LM Studio: what is loaded, below max_context_length
    "context_length",  # OpenRouter, Together, Fireworks, DeepInfra
    "context_window",  # Groq, Vercel
    "max_context_length",  # Mistral, LM Studio
    "max_context_window_tokens",  # GitHub Copilot
    "max_total_tokens",  # TGI
    "n_ctx",  # llama.cpp
)
INPUT = ("max_input_tokens", "max_prompt_tokens", "max_input_length", "inputTokenLimit")
OUTPUT = ("max_completion_tokens", "max_output_tokens", "outputTokenLimit")
_ONE_PROVIDER = "top_provider"  # OpenRouter: one of several providers that may serve the model
_NOT_IN = frozenset({"pricing", "per_request_limits", "permission"})
_DEEPEST = 4
_MOST_ENTRIES = 5_000  # of a listing; the rest is not read
_MOST_VALUES = 500_000  # of an answer; OpenRouter's list of 400 models has 40,000


class Nonsense(ValueError):
    """The answer is not in the endpoint's format: HTML, or JSON of another shape."""


class Listing(msgspec.Struct, frozen=True):
    """A listing of models: every name, the claims of the models that state a limit, and every `owned_by`."""

    names: frozenset[str] = frozenset()
    claims: Mapping[str, Claim] = {}
    owners: frozenset[str] = frozenset()


def listing(body: bytes, path: str = "models") -> Listing:
    """A listing of models in OpenAI's form (`data`), or Gemini's and Ollama's (`models`). Raises Nonsense."""
    raw = _object(body)
    entries = raw.get("data", raw.get("models"))
    if not isinstance(entries, list):
        raise Nonsense("not a list of models")
    named = [(_name(entry), entry) for entry in entries[:_MOST_ENTRIES] if isinstance(entry, dict)]
    found = {name: claim for name, entry in named if name and (claim := _claim(entry, path))}
    owners = frozenset(entry["owned_by"] for _, entry in named if isinstance(entry.get("owned_by"), str))
    return Listing(frozenset(name for name, _ in named if name), found, owners)


def props(body: bytes) -> Claim | None:
    """llama.cpp's `/props`. The window is one slot's: the nested `n_ctx` is that already, one at the top level is the
    total and is divided by `total_slots`. Raises Nonsense."""
    raw = _object(body)
    slot = raw.get("default_generation_settings")
    window = tokens(slot.get("n_ctx")) if isinstance(slot, dict) else None
    if window is None and (total := tokens(raw.get("n_ctx"))):
        window = tokens(total // (_small(raw.get("total_slots")) or 1))
    return _window("/props n_ctx", window) if window else None


def running(body: bytes) -> dict[str, Claim]:
    """Ollama's `/api/ps`: the window that each loaded model was loaded with. Raises Nonsense."""
    return dict(listing(body, "/api/ps").claims)


def shown(body: bytes) -> Claim | None:
    """Ollama's `/api/show` of one model: `num_ctx` of its parameters, else the window it was trained for, which is an
    upper bound until the model is loaded and listed in `/api/ps`. Raises Nonsense."""
    raw = _object(body)
    for line in str(raw.get("parameters") or "").splitlines():
        name, _, value = line.strip().partition(" ")
        if name == "num_ctx" and (window := tokens(value.strip())):
            return _window("/api/show num_ctx", window)
    info = raw.get("model_info")
    trained = [tokens(v) for k, v in info.items() if k.endswith(".context_length")] if isinstance(info, dict) else []
    return next((_window("/api/show context_length", n) for n in trained if n), None)


def info(body: bytes) -> Claim | None:
    """TGI's `/info`, which describes its only model. Raises Nonsense."""
    return _claim(_object(body), "/info")


def tokens(value: object) -> int | None:
    """`value` when it is a number of tokens in range, else None."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 12:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not LEAST <= value <= MOST:
        return None
    return int(value)


def _claim(entry: Mapping[str, Any], path: str) -> Claim | None:
    stated = list(_fields(entry))
    windows = [(n, field) for field, value in stated if field in WINDOW and (n := tokens(value))]
    caps = [n for field, value in stated if field in INPUT and (n := tokens(value))]
    outputs = [n for field, value in stated if field in OUTPUT and (n := tokens(value))]
    if not windows and not caps:
        return None
    window, field = min(windows) if windows else (min(caps), "input limit")
    cap = min(caps) if caps and min(caps) < window else None
    return Claim(
        source="discovered",
        detail=f"{path} {field}",
        context_size=window,
        max_input_tokens=cap,
        max_output_tokens=min(outputs) if outputs else None,
        trusted=not _is_one_providers(entry, window),
    )


def _is_one_providers(entry: Mapping[str, Any], window: int) -> bool:
    """True when only one of the providers that serve the model states so small a window."""
    others = {name: value for name, value in entry.items() if name != _ONE_PROVIDER}
    return len(others) < len(entry) and all(
        tokens(value) != window for field, value in _fields(others) if field in (*WINDOW, *INPUT)
    )


def _fields(entry: Mapping[str, Any], depth: int = 0) -> Iterator[tuple[str, object]]:
    for field, value in entry.items():
        if isinstance(value, dict) and depth < _DEEPEST and field not in _NOT_IN:
            yield from _fields(value, depth + 1)
        else:
            yield field, value


def _window(detail: str, window: int) -> Claim:
    return Claim(source="discovered", detail=detail, context_size=window)


def _name(entry: Mapping[str, Any]) -> str:
    """The id, in lower case; Gemini and Ollama call it `name`, Gemini with `models/` before it."""
    name = entry.get("id") or entry.get("name") or entry.get("model")
    return name.lower().removeprefix("models/").removesuffix(":latest") if isinstance(name, str) else ""


def _small(value: object) -> int | None:
    return value if isinstance(value, int) and 0 < value <= 4_096 else None


def _object(body: bytes) -> dict[str, Any]:
    if has_more_values(body, _MOST_VALUES):
        raise Nonsense("too many values")
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as e:
        raise Nonsense("not a JSON object") from e
