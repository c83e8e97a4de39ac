"""Responses that the upstream makes in the background and holds: asked for, cancelled and continued where they are, by
the tenant who asked for them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI, BadRequestError, NotFoundError
from openai.types.responses import Response

from tests.support.background import BackgroundServer
from tests.support.running import running
from tests.support.scripted import ScriptedUpstream
from tests.support.stateless import StatelessModel
from trimtab.conversations.elsewhere import Elsewhere, in_background
from trimtab.errors import StoreUnavailable
from trimtab.settings import parse

pytestmark = pytest.mark.anyio

SHARED = 'api_key = "sk-of-the-proxy"\n'


@asynccontextmanager
async def stage(path: Path, upstream: str = "", server: Any = None) -> AsyncIterator[tuple[BackgroundServer, Any]]:
    """The server, and what makes a client of the proxy before it. `upstream`: more lines of its table."""
    server = server or BackgroundServer()
    async with AsyncExitStack() as entered:
        there = await entered.enter_async_context(ScriptedUpstream(server))
        toml = f'[[upstreams]]\nname = "test"\nbase_url = "{there.base_url}"\nretries = 0\n{upstream}'
        toml += f'[limits]\ndiscover = false\nask_usage = "never"\n[conversations]\nstore = "sqlite:///{path}/c.db"\n'
        proxy = await entered.enter_async_context(running(parse(toml, {})))

        def client(key: str = "sk-one") -> AsyncOpenAI:
            made = AsyncOpenAI(base_url=proxy.base_url, api_key=key, max_retries=0)
            entered.push_async_callback(made.close)
            return made

        yield server, client


@pytest.mark.parametrize("upstream", ["", SHARED], ids=["the client's key", "a shared key"])
async def test_a_background_response_is_polled_cancelled_and_deleted_where_it_is(tmp_path: Path, upstream: str) -> None:
    async with stage(tmp_path, upstream) as (server, client_of):
        client = client_of()
        made = await client.responses.create(model="m", input="one", background=True)
        polled = [await client.responses.retrieve(made.id) for _ in range(2)]
        assert [made.status, *(each.status for each in polled)] == ["queued", "in_progress", "completed"]
        assert polled[-1].output_text == f"answer of {made.id}"
        Response.model_validate(polled[-1].model_dump(exclude_unset=True))
        other = await client.responses.create(model="m", input="two", background=True)
        assert (await client.responses.cancel(other.id)).status == "cancelled"
        await client.responses.delete(other.id)
        with pytest.raises(NotFoundError, match="not found"):
            await client.responses.retrieve(other.id)
    assert server.asked[-3:] == [
        f"POST /v1/responses/{other.id}/cancel",
        f"DELETE /v1/responses/{other.id}",
        f"GET /v1/responses/{other.id}",
    ]


async def test_a_stream_in_the_background_can_be_asked_for_from_its_first_event_on(tmp_path: Path) -> None:
    async with stage(tmp_path, SHARED) as (_, client_of):
        client = client_of()
        events = await client.responses.create(model="m", input="one", background=True, stream=True)
        first = await anext(aiter(events))
        assert (await client.responses.retrieve(first.response.id)).status == "in_progress"
        await events.close()


async def test_what_the_upstream_holds_is_continued_there(tmp_path: Path) -> None:
    async with stage(tmp_path, SHARED) as (server, client_of):
        client = client_of()
        first = await client.responses.create(model="m", input="one", background=True)
        second = await client.responses.create(model="m", input="two", previous_response_id=first.id)
        assert second.output_text == f"answer of {second.id}"
        assert (await client.responses.retrieve(second.id)).previous_response_id == first.id
        with pytest.raises(NotFoundError, match="Previous response"):
            await client_of("sk-two").responses.create(model="m", input="two", previous_response_id=first.id)
    assert len([each for each in server.asked if each == "POST /v1/responses"]) == 2


async def test_of_several_upstreams_the_one_that_holds_it_is_asked(tmp_path: Path) -> None:
    second = BackgroundServer()
    async with ScriptedUpstream(second) as there:
        more = f'models = ["a"]\n[[upstreams]]\nname = "second"\nbase_url = "{there.base_url}"\n'
        async with stage(tmp_path, more) as (first, client_of):
            client = client_of()
            made = await client.responses.create(model="b", input="one", background=True)
            assert (await client.responses.retrieve(made.id)).status == "in_progress"
    assert (first.asked, second.asked) == ([], ["POST /v1/responses", f"GET /v1/responses/{made.id}"])


async def test_under_a_shared_key_another_tenant_is_not_even_asked_for(tmp_path: Path) -> None:
    async with stage(tmp_path, SHARED) as (server, client_of):
        made = await client_of().responses.create(model="m", input="one", background=True)
        other = client_of("sk-two")
        for call in (other.responses.retrieve, other.responses.cancel, other.responses.delete):
            with pytest.raises(NotFoundError, match="not found"):
                await call(made.id)
    assert server.asked == ["POST /v1/responses"]


async def test_under_keys_of_their_own_the_upstream_tells_tenants_apart(tmp_path: Path) -> None:
    async with stage(tmp_path) as (server, client_of):
        made = await client_of().responses.create(model="m", input="one", background=True)
        with pytest.raises(NotFoundError, match="not found") as caught:
            await client_of("sk-two").responses.retrieve(made.id)
        assert caught.value.code == "not_found"
    assert server.asked[-1] == f"GET /v1/responses/{made.id}"


async def test_what_is_stored_here_has_ended_and_is_not_cancelled(tmp_path: Path) -> None:
    async with stage(tmp_path, server=StatelessModel()) as (_, client_of):
        client = client_of()
        made = await client.responses.create(model="m", input="one")
        with pytest.raises(BadRequestError, match="Cannot cancel a synchronous response"):
            await client.responses.cancel(made.id)
        assert (await client.responses.retrieve(made.id)).output_text == "answer 1"


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b'{"background":true}', True),
        (b'{"background":false}', False),
        (b'{"background":null}', False),
        (b'{"background":"yes"}', False),
        (b'{"input":"background"}', False),
        (b'{"background"', False),
        (b"", False),
    ],
)
def test_only_true_asks_for_the_background(body: bytes, found: bool) -> None:
    assert in_background(body) is found


class _Full:
    async def remember(self, tenant: object, records: object) -> None:
        raise StoreUnavailable("full")


async def test_an_answer_without_an_id_or_a_store_stays_what_it_is() -> None:
    held = Elsewhere(_Full(), None)  # type: ignore[arg-type]
    held.begin()
    for data in (b"", b"{", b"[DONE]", b'{"response":{"id":5}}', b'{"type":"response.created"}'):
        held.read(data)
        assert held.feed(data) is False
    await held.keep()
    assert held.feed(b'{"response":{"id":"resp_1"}}') is True
    await held.keep_what_came()
