"""Files that clients upload with the OpenAI SDK and name in requests, through the running proxy: what is kept here,
what is passed on, and what reaches the model.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from openai import APIStatusError, BadRequestError, NotFoundError

from tests.support.forms import form
from tests.support.holding import HEADER, Holding, holding
from tests.support.running import running
from tests.support.scripted import Received, ScriptedUpstream, Step, json_reply

pytestmark = pytest.mark.anyio

TEXT = ("notes.txt", b"the launch is on friday", "text/plain")
IMAGE = ("dot.png", b"\x89PNG dot", "image/png")
URL = "data:text/plain;base64,dGhlIGxhdW5jaCBpcyBvbiBmcmlkYXk="
IMAGE_URL = "data:image/png;base64,iVBORyBkb3Q="


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Holding]:
    async with holding(tmp_path) as made:
        yield made


def asked(file: str, image: str) -> Any:
    parts = [{"type": "input_file", "file_id": file}, {"type": "input_image", "file_id": image, "detail": "auto"}]
    return [{"role": "user", "content": [{"type": "input_text", "text": "When?"}, *parts]}]


async def test_a_response_gets_the_files_that_its_request_names(stage: Holding) -> None:
    client = stage.client()
    file = await client.files.create(file=TEXT, purpose="user_data")
    image = await client.files.create(file=IMAGE, purpose="vision")
    await client.responses.create(model="m", input=asked(file.id, image.id), store=False)
    assert stage.model.bodies[-1]["input"][0]["content"][1:] == [
        {"type": "input_file", "filename": "notes.txt", "file_data": URL},
        {"type": "input_image", "detail": "auto", "image_url": IMAGE_URL},
    ]


async def test_what_is_stored_keeps_the_reference_and_every_turn_gets_the_file(stage: Holding) -> None:
    client = stage.client()
    file = await client.files.create(file=TEXT, purpose="user_data")
    image = await client.files.create(file=IMAGE, purpose="vision")
    first = await client.responses.create(model="m", input=asked(file.id, image.id))
    sent = stage.model.bodies[-1]["input"][0]
    second = await client.responses.create(model="m", input="Sure?", previous_response_id=first.id)
    assert stage.model.bodies[-1]["input"][0] == sent
    items: Any = await client.responses.input_items.list(second.id, order="asc")
    assert [part.file_id for part in items.data[0].content[1:]] == [file.id, image.id]
    assert URL not in str(items)


async def test_a_chat_gets_the_file_with_and_without_a_stored_conversation(stage: Holding) -> None:
    client = stage.client()
    file = await client.files.create(file=TEXT, purpose="user_data")
    messages: Any = [{"role": "user", "content": [{"type": "file", "file": {"file_id": file.id}}]}]
    for headers in ({}, {HEADER: "trip"}, {"x-trimtab-bypass": "true"}):
        await client.chat.completions.create(model="m", messages=messages, extra_headers=headers)
        part = stage.model.bodies[-1]["messages"][0]["content"][0]
        assert part == {"type": "file", "file": {"filename": "notes.txt", "file_data": URL}}
    items: Any = await client.conversations.items.list("trip", order="asc")
    assert items.data[0].content[0].file_id == file.id


async def test_an_id_of_another_tenant_or_of_the_upstream_is_passed_on(stage: Holding) -> None:
    file = await stage.client().files.create(file=TEXT, purpose="user_data")
    other = stage.client("sk-two")
    for name in (file.id, "file-abc123ABC456def789ghij"):
        await other.responses.create(model="m", input=asked(name, name), store=False)
        assert stage.model.bodies[-1]["input"] == asked(name, name)


async def test_a_file_that_makes_the_request_too_large_is_refused(tmp_path: Path) -> None:
    async with holding(tmp_path, "[server]\nmax_body_mb = 1\n") as stage:
        client = stage.client()
        file = await client.files.create(file=("a.bin", bytes(900_000)), purpose="user_data")
        with pytest.raises(APIStatusError, match="max_body_mb"):
            await client.responses.create(model="m", input=asked(file.id, file.id))
        assert stage.model.bodies == []


# -- what is kept here and what is not -----------------------------------------------------------------------------


class Vendor:
    """An upstream with files of its own."""

    def __init__(self) -> None:
        self.asked: list[Received] = []

    def __call__(self, received: Received) -> list[Step]:
        self.asked.append(received)
        if received.method == "GET" and received.target.startswith("/v1/files/file-none"):
            error = {"message": "No such File object: file-none", "type": "invalid_request_error"}
            return json_reply({"error": error}, 404)
        file = {"id": "file-upstreams", "object": "file", "bytes": 1, "created_at": 1, "filename": "a.jsonl"}
        return json_reply({**file, "purpose": "batch", "status": "processed", "deleted": True, "data": []})


@pytest.fixture
async def passing(tmp_path: Path) -> AsyncIterator[tuple[Vendor, str]]:
    vendor = Vendor()
    table = f'[server]\nmax_body_mb = 2\n[conversations]\nstore = "sqlite:///{tmp_path}/c.db"\nmax_file_mb = 1\n'
    async with ScriptedUpstream(vendor) as upstream, running(upstream.base_url, table) as proxy:
        yield vendor, proxy.url + "/v1/files"


async def send(url: str, raw: bytes, boundary: str, **headers: str) -> tuple[int, Any]:
    named = {"content-type": f"multipart/form-data; boundary={boundary}"}
    named |= {name.replace("_", "-"): value for name, value in headers.items()}
    async with aiohttp.ClientSession() as session, session.post(url, data=raw, headers=named) as answer:
        return answer.status, msgspec.json.decode(await answer.read())


@pytest.mark.parametrize("purpose", ["assistants", "batch", "fine-tune", "evals", "", "something new"])
async def test_files_of_other_purposes_go_upstream_as_they_came(passing: tuple[Vendor, str], purpose: str) -> None:
    raw, boundary = form({"purpose": purpose}, file=("big.jsonl", bytes(3_000_000), "text/plain"))
    status, answer = await send(passing[1], raw, boundary)
    assert (status, answer["id"]) == (200, "file-upstreams")
    assert passing[0].asked[0].body == raw
    assert passing[0].asked[0].header(b"content-type") == b"multipart/form-data; boundary=" + boundary.encode()


async def test_a_file_before_its_purpose_is_kept_or_passed_on_as_one_behind_it(passing: tuple[Vendor, str]) -> None:
    for size, purpose, kept in ((10, "vision", True), (10, "batch", False), (1_500_000, "vision", False)):
        raw, boundary = form(None, file=("a.bin", bytes(size), "x/y"), purpose=(None, purpose.encode(), "text/plain"))
        status, answer = await send(passing[1], raw, boundary)
        assert (status, answer["id"] != "file-upstreams") == (200, kept), answer
        assert (passing[0].asked[-1:] and passing[0].asked[-1].body == raw) or kept


REFUSED = [
    ("no file", form({"purpose": "user_data"}, other=TEXT), 400),
    ("cut short", (form({"purpose": "user_data"}, file=TEXT)[0][:-20], form({}, file=TEXT)[1]), 400),
    ("too large", form({"purpose": "user_data"}, file=("a", bytes(1_200_000), "x/y")), 413),
    ("far too large", form({"purpose": "user_data"}, file=("a", bytes(5_000_000), "x/y")), 413),
    ("an end", form({"purpose": "user_data", "expires_after[seconds]": "1"}, file=TEXT), 400),
]


@pytest.mark.parametrize(("sent", "status"), [each[1:] for each in REFUSED], ids=[each[0] for each in REFUSED])
async def test_an_upload_that_cannot_be_kept_is_refused(
    passing: tuple[Vendor, str], sent: tuple[bytes, str], status: int
) -> None:
    raw = sent[0]
    found = await send(passing[1], raw, raw[2:34].decode())
    assert (found[0], found[1]["error"]["type"]) == (status, "invalid_request_error")
    assert passing[0].asked == []


async def test_what_is_no_form_or_another_api_is_passed_on(passing: tuple[Vendor, str]) -> None:
    vendor, url = passing
    raw, boundary = form({"purpose": "user_data"}, file=TEXT)
    await send(url, raw, boundary, anthropic_version="2023-06-01")
    await send(url, raw, "")
    await send(url, b"{}", boundary, content_type="application/json")
    async with aiohttp.ClientSession() as session:
        await session.get(url, headers={"anthropic-version": "2023-06-01"})
    assert [each.method for each in vendor.asked] == ["POST", "POST", "POST", "GET"]
    assert vendor.asked[0].body == raw


async def test_files_of_the_upstream_are_read_and_deleted_there(passing: tuple[Vendor, str]) -> None:
    vendor, url = passing
    async with aiohttp.ClientSession() as session:
        for method, path in (("GET", "/file-1"), ("GET", "/file-1/content"), ("DELETE", "/file-1")):
            async with session.request(method, url + path) as answer:
                assert (await answer.json())["id"] == "file-upstreams"
        async with session.get(url + "/file-none") as answer:
            assert (answer.status, (await answer.json())["error"]["message"]) == (404, "No such File object: file-none")
        async with session.get(url + "?purpose=batch") as answer:
            assert (await answer.json())["id"] == "file-upstreams"
    assert [each.target for each in vendor.asked] == [
        *("/v1/files/file-1", "/v1/files/file-1/content", "/v1/files/file-1"),
        *("/v1/files/file-none", "/v1/files?purpose=batch"),
    ]


async def test_without_conversations_every_file_is_the_upstreams() -> None:
    vendor = Vendor()
    raw, boundary = form({"purpose": "user_data"}, file=TEXT)
    async with ScriptedUpstream(vendor) as upstream, running(upstream.base_url) as proxy:
        await send(proxy.url + "/v1/files", raw, boundary)
        async with aiohttp.ClientSession() as session:
            await session.get(proxy.url + "/v1/files")
            await session.delete(proxy.url + "/v1/files/file-" + "a" * 32)
    assert [each.method for each in vendor.asked] == ["POST", "GET", "DELETE"]
    assert vendor.asked[0].body == raw


async def test_a_deleted_file_is_not_found_any_more(stage: Holding) -> None:
    client = stage.client()
    file = await client.files.create(file=TEXT, purpose="user_data")
    await client.files.delete(file.id)
    for call in (client.files.retrieve, client.files.content, client.files.delete):
        with pytest.raises(NotFoundError):
            await call(file.id)  # type: ignore[operator]
    await client.responses.create(model="m", input=asked(file.id, file.id), store=False)
    assert stage.model.bodies[-1]["input"] == asked(file.id, file.id)


async def test_a_request_names_a_bounded_number_of_files(stage: Holding) -> None:
    client = stage.client()
    part = {"type": "input_file", "file_id": "file-" + "a" * 32}
    with pytest.raises(BadRequestError, match="at most 1000"):
        await client.responses.create(model="m", input=[{"role": "user", "content": [part] * 1_001}])  # type: ignore[list-item]
