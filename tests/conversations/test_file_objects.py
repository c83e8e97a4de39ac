"""Uploaded files as OpenAI's API shows them, read with the SDK's own types."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from openai import BadRequestError, NotFoundError
from openai.types import FileDeleted, FileObject

from tests.support.holding import Holding, holding

pytestmark = pytest.mark.anyio


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Holding]:
    async with holding(tmp_path) as made:
        yield made


def valid(found: Any, kind: Any) -> Any:
    """The object, checked strictly: the SDK itself takes whatever comes."""
    return kind.model_validate(found.model_dump(exclude_unset=True))


async def test_a_file_is_uploaded_shown_read_and_deleted(stage: Holding) -> None:
    client = stage.client()
    made = valid(await client.files.create(file=("a.txt", b"hello"), purpose="user_data"), FileObject)
    assert (made.filename, made.bytes, made.purpose, made.status) == ("a.txt", 5, "user_data", "processed")
    assert made.expires_at is None
    assert valid(await client.files.retrieve(made.id), FileObject) == made
    content = await client.files.content(made.id)
    assert content.content == b"hello"
    assert content.response.headers["content-type"] == "application/octet-stream"
    assert content.response.headers["x-content-type-options"] == "nosniff"
    assert content.response.headers["content-disposition"] == "attachment"
    deleted = valid(await client.files.delete(made.id), FileDeleted)
    assert (deleted.id, deleted.deleted) == (made.id, True)
    with pytest.raises(NotFoundError):
        await client.files.retrieve(made.id)


async def test_a_file_that_ends_says_when(stage: Holding) -> None:
    ends: Any = {"anchor": "created_at", "seconds": 7_200}
    made = await stage.client().files.create(file=("a.txt", b"x"), purpose="vision", expires_after=ends)
    assert valid(made, FileObject).expires_at == made.created_at + 7_200


async def test_files_are_listed_in_pages(stage: Holding) -> None:
    client = stage.client()
    made = [await client.files.create(file=(f"{n}.txt", b"x"), purpose="user_data") for n in range(4)]
    made.append(await client.files.create(file=("4.png", b"x"), purpose="vision"))
    ids = [file.id for file in made]
    assert [file.id async for file in client.files.list(limit=2, order="asc")] == ids
    assert [file.id async for file in client.files.list()] == ids[::-1]
    assert [file.id async for file in client.files.list(purpose="vision")] == ids[4:]
    page = await client.files.list(limit=2)
    assert ([valid(file, FileObject).id for file in page.data], page.has_more) == ([ids[4], ids[3]], True)
    assert (await stage.client("sk-two").files.list()).data == []


async def test_a_page_that_does_not_exist_is_refused(stage: Holding) -> None:
    client = stage.client()
    for query in ({"limit": 0}, {"limit": "x"}, {"limit": 10_001}, {"order": "up"}):
        with pytest.raises(BadRequestError, match="Invalid"):
            await client.files.list(extra_query=query)
    with pytest.raises(NotFoundError, match="after"):
        await client.files.list(after="file-none")
