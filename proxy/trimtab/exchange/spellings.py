"""Which paths are the API's, in the spellings that people configure.

A client's base URL may lack the `/v1`, have it twice, or have a provider's prefix before it; an Azure client names the
deployment in the path, or has `/openai` in the place of `/v1`. All of these are the one API. A few paths at the root,
where clients of llama.cpp, Ollama and LiteLLM find the window of a model, are passed on; they only read. Anything else
at the root is a page of our own.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final
from urllib.parse import quote, unquote

_PREFIXED = re.compile(r"/+(?:(?:openai|api)/+)?(?:v1/+)+(.+)")
_WITHOUT = re.compile(r"/(?:chat/completions|completions|responses|messages|embeddings|models)(?:/.*)?/?")
# Base URLs of providers, in which only the host was replaced: Gemini; Anthropic's API at DeepSeek, Moonshot and Z.ai;
# GitHub Models and Fireworks; DashScope; Z.ai; Volcengine. Below them only what `_WITHOUT` names.
_PROVIDERS = re.compile(
    r"/(?:v1beta/openai|(?:api/)?anthropic(?:/v1)?|inference(?:/v1)?|compatible-mode/v1|api/(?:coding/)?paas/v4|api/v3)"
    r"(/.+)"
)
_PREFIX_ALONE = re.compile(r"/openai(/(?:chat/completions|completions|embeddings)/?)")
_AZURE = re.compile(r"/openai/deployments/([^/]+)/(.+)")
_AZURE_OTHERS = re.compile(r"/openai(/(?:responses|models|files)(?:/.*)?)")  # those that no deployment serves
_AZURE_ROOT: Final = "/openai/"

_NATIVE: Final = frozenset(
    {
        ("GET", "/props"),  # llama.cpp; a POST would change its settings
        ("POST", "/tokenize"),
        ("POST", "/detokenize"),
        ("GET", "/api/version"),  # Ollama
        ("GET", "/api/tags"),
        ("GET", "/api/ps"),
        ("POST", "/api/show"),
        ("GET", "/model/info"),  # LiteLLM
        ("GET", "/version"),  # vLLM
    }
)


def api_path(method: str, path: str) -> str | None:
    """The path of a request to the API, which begins with `/v1/` unless it is a deployment's or a server's own; None
    for any other. Both are escaped; an escaped `/v1` is another path."""
    if path.startswith("/v1/") and not path.startswith("/v1/v1/"):
        return path
    if found := _PREFIXED.fullmatch(path):
        return f"/v1/{found[1]}"
    if is_azure(path) or (method, path) in _NATIVE:
        return path
    if found := _PREFIX_ALONE.fullmatch(path):
        return f"/v1{found[1]}"
    if found := _PROVIDERS.fullmatch(path):
        path = found[1]
    return f"/v1{path}" if _WITHOUT.fullmatch(path) else None


@lru_cache(maxsize=64)
def paths_of(method: str, raw_path: bytes) -> tuple[str, str]:
    """The path of a request, escaped, and its plain spelling. A path to the API in the spelling that begins with
    `/v1/`. `raw_path` is as it was sent, with its query or without."""
    path = raw_path.split(b"?")[0].decode("latin-1")
    path = api_path(method, path) or path
    return path, endpoint_of(path)


def endpoint_of(path: str) -> str:
    """The plain spelling of an API path, by which its kind is known. Most servers treat the other spellings like it (an
    escaped letter, a slash too many), so requests to them are managed like it."""
    if found := _AZURE.fullmatch(path):
        path = f"/v1/{found[2]}"
    elif found := _AZURE_OTHERS.fullmatch(path):
        path = f"/v1{found[1]}"
    return re.sub("/+", "/", unquote(path)).rstrip("/")


def is_azure(path: str) -> bool:
    """True for a path of Azure's own API, with a deployment or without."""
    return path.startswith(_AZURE_ROOT) and bool(_AZURE.fullmatch(path) or _AZURE_OTHERS.fullmatch(path))


def deployment_of(path: str) -> str:
    """The deployment that an Azure path names; "" for any other path."""
    found = _AZURE.fullmatch(path)
    return unquote(found[1]) if found else ""


def deployment_path(path: str, model: str) -> str:
    """The Azure path of another deployment."""
    found = _AZURE.fullmatch(path)
    return f"{_AZURE_ROOT}deployments/{quote(model, safe='')}/{found[2]}" if found else path
