"""Which paths are the API's: the spellings people configure, and what clients ask at the root."""

from __future__ import annotations

import pytest

from tests.support.chat import COMPLETION, WINDOW, post
from tests.support.conversations import agent_run, prose
from tests.support.running import running
from tests.support.scripted import Received, ScriptedUpstream, Step, json_reply
from tests.support.summary_models import OPENING
from trimtab.exchange.spellings import api_path, deployment_of, deployment_path, endpoint_of, paths_of
from trimtab.upstream.routing import url_of

CHAT = "/v1/chat/completions"
AZURE_RESPONSES = "/openai/responses"
AZURE = "/openai/deployments/my%20gpt/chat/completions"

SPELLINGS: dict[str, str | None] = {
    CHAT: CHAT,
    "/v1/v1/chat/completions": CHAT,
    "//v1/chat/completions": CHAT,
    "/openai/v1/chat/completions": CHAT,
    "/api/v1/chat/completions": CHAT,
    "/chat/completions": CHAT,
    "/responses": "/v1/responses",
    "/messages/count_tokens": "/v1/messages/count_tokens",
    "/models/a%2Fb": "/v1/models/a%2Fb",
    AZURE: AZURE,
    AZURE_RESPONSES: AZURE_RESPONSES,
    "/openai/responses/resp_1": "/openai/responses/resp_1",
    "/openai/models": "/openai/models",
    "/openai/chat/completions": CHAT,
    "/v1beta/openai/chat/completions": CHAT,
    "/v1beta/openai/models/gemini-3-pro": "/v1/models/gemini-3-pro",
    "/anthropic/v1/messages": "/v1/messages",
    "/api/anthropic/v1/messages/count_tokens": "/v1/messages/count_tokens",
    "/inference/chat/completions": CHAT,
    "/inference/v1/chat/completions": CHAT,
    "/compatible-mode/v1/chat/completions": CHAT,
    "/api/coding/paas/v4/chat/completions": CHAT,
    "/api/v3/embeddings": "/v1/embeddings",
    "/v1beta/models/gemini:generateContent": None,
    "/v1beta/openai/admin": None,
    "/anthropic/v1/organizations": None,
    "/api/v3": None,
    "/api/v3/": None,
    "/api/chat": None,
    "/v1beta/openai/anthropic/v1/messages": None,
    "/openai/admin": None,
    "/openai/modelsx": None,
    "/v1/models": "/v1/models",
    "/v1": None,
    "/": None,
    "/%761/chat/completions": None,
    "/healthz/live": None,
    "/metrics": None,
    "/ui": None,
    "/chat": None,
    "/openai/deployments": None,
    "/admin/v1/keys": None,
}


@pytest.mark.parametrize(("path", "expected"), SPELLINGS.items())
def test_spellings_lead_to_the_one_path(path: str, expected: str | None) -> None:
    assert api_path("POST", path) == expected


@pytest.mark.parametrize("path", ["/props", "/api/tags", "/api/version", "/model/info"])
def test_what_clients_read_at_the_root_is_passed_on_and_nothing_is_changed_there(path: str) -> None:
    assert api_path("GET", path) == path
    assert api_path("POST", path) is None
    assert api_path("GET", f"{path}/x") is None
    assert (api_path("POST", "/api/show"), api_path("GET", "/api/show")) == ("/api/show", None)


def test_a_deployment_is_the_model_of_its_path() -> None:
    assert endpoint_of(AZURE) == CHAT
    assert (deployment_of(AZURE), deployment_of(CHAT)) == ("my gpt", "")
    assert deployment_path(AZURE, "a/b") == "/openai/deployments/a%2Fb/chat/completions"
    assert deployment_path("", "m") == ""


@pytest.mark.parametrize("base", ["https://x.azure.com", "https://x.azure.com/openai", "https://x.azure.com/openai/v1"])
def test_a_deployment_stands_once_in_the_url(base: str) -> None:
    assert url_of(base, AZURE, b"api-version=1") == f"https://x.azure.com{AZURE}?api-version=1"


@pytest.mark.anyio
@pytest.mark.parametrize("root", ["", "/openai", "/openai/v1"])
async def test_azures_responses_are_managed_and_stay_at_their_path(root: str) -> None:
    """As `AzureOpenAI().responses` asks for them. A summary goes the same way."""
    message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": OPENING + "so."}]}
    answer = {"id": "resp_1", "object": "response", "status": "completed", "output": [message]}
    toml = WINDOW + '[compaction]\nmodel = "same"\nmax_summary_tokens = 300\n'
    said = [{"role": ("user", "assistant")[n % 2], "content": prose(600, n)} for n in range(31)]
    async with ScriptedUpstream(json_reply(answer)) as upstream, running(upstream.origin + root, toml) as proxy:
        answered = await post(proxy.url, {"model": "m", "input": said}, AZURE_RESPONSES + "?api-version=1")
    assert answered.status == 200
    assert "summarized=0" not in answered.headers["x-trimtab-edits"]
    assert len(upstream.requests) > 1
    assert {received.target for received in upstream.requests} == {AZURE_RESPONSES + "?api-version=1"}


LONG = {"messages": agent_run(30)}


@pytest.mark.anyio
@pytest.mark.parametrize("path", [path for path, found in SPELLINGS.items() if found in (CHAT, AZURE)])
async def test_every_spelling_is_managed(path: str) -> None:
    async with ScriptedUpstream(json_reply(COMPLETION)) as upstream, running(upstream.base_url, WINDOW) as proxy:
        answer = await post(proxy.url, {"model": "m", **LONG}, path + "?api-version=1")
    assert answer.status == 200
    assert "cleared=0" not in answer.headers["x-trimtab-edits"]
    assert upstream.requests[0].target == (path if path == AZURE else CHAT) + "?api-version=1"


@pytest.mark.anyio
async def test_a_deployment_needs_no_model_in_its_body_and_writes_its_own_summaries() -> None:
    written = {"choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": OPENING + "so."}}]}

    def answer(received: Received) -> list[Step]:
        return json_reply(written if received.json().get("model") else COMPLETION)

    toml = WINDOW.replace('"*"', '"my gpt"') + '[compaction]\nmodel = "same"\nmax_summary_tokens = 300\n'
    async with ScriptedUpstream(answer) as upstream, running(upstream.base_url, toml) as proxy:
        answered = await post(proxy.url, LONG, AZURE + "?api-version=1")
        line = proxy.log.getvalue()
    assert '"model":"my gpt"' in line
    assert "cleared=0" not in answered.headers["x-trimtab-edits"]
    assert {r.target for r in upstream.requests} == {AZURE + "?api-version=1"}


@pytest.mark.anyio
async def test_native_paths_are_passed_on_to_the_servers_root() -> None:
    async with ScriptedUpstream(json_reply({"n_ctx": 1})) as upstream, running(upstream.base_url) as proxy:
        shown = await post(proxy.url, {"model": "m"}, "/api/show")
    assert shown.json() == {"n_ctx": 1}
    assert (upstream.requests[0].target, upstream.requests[0].json()) == ("/api/show", {"model": "m"})


def test_a_path_is_known_with_its_query_and_in_its_plain_spelling() -> None:
    assert paths_of("POST", b"/api/v1//chat/completions/?x=1") == ("/v1/chat/completions/", CHAT)
    assert paths_of("POST", AZURE.encode()) == (AZURE, CHAT)
    assert paths_of("GET", b"/v1/models/a%2Fb") == ("/v1/models/a%2Fb", "/v1/models/a/b")
