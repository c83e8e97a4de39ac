"""Real clients read a book that is far larger than the model's window, page after page with their own tools: through
Trimtab they finish, without it they fail.

Trimtab runs as it comes, `trimtab serve` with nothing but an upstream; it hears of the window from the upstream's
`/v1/models`. The upstream counts true tokens and looks at every request it accepts (see `strict`).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.clients import CLIENTS, Client, run
from tests.e2e.strict import DONE, Book, StrictUpstream
from tests.support.served import serving

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(400)]
PAGES, PAGE_TOKENS = 14, 2_500
WITHIN_S = 300.0


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest) -> Client:
    found = CLIENTS[request.param]
    if reason := found.missing:
        pytest.skip(reason)
    return found


@pytest.fixture
def book(tmp_path: Path) -> Book:
    written = Book(tmp_path / "home", PAGES, PAGE_TOKENS)
    written.write()
    return written


async def test_through_trimtab_it_finishes(client: Client, book: Book) -> None:
    async with StrictUpstream(book, client.window) as upstream, serving(upstream.base_url) as served:
        ran = await run(client, served.base_url, book.question, book.folder, WITHIN_S)
        records = served.records()
    assert DONE in ran.output, ran.output
    assert ran.status == 0
    assert upstream.finished
    assert upstream.complaints == []
    assert max(record["tokens_original"] for record in records) > client.window
    assert {record["outcome"] for record in records} == {"passed", "shaped"}
    assert bool(upstream.streamed) == client.streams


async def test_without_trimtab_it_fails(client: Client, book: Book) -> None:
    async with StrictUpstream(book, client.window) as upstream:
        ran = await run(client, upstream.base_url, book.question, book.folder, WITHIN_S)
    assert upstream.refused >= 1
    assert not upstream.finished
    assert DONE not in ran.output


async def test_what_cannot_fit_is_one_clear_error_that_nobody_sends_again(client: Client, book: Book) -> None:
    """Agents show the sentence as it is. opencode asks beside the task for a title, and gets its own answer."""
    question = book.question + " and mind the weather" * 1_500
    async with StrictUpstream(book, window=1_000) as upstream, serving(upstream.base_url) as served:
        ran = await run(client, served.base_url, question, book.folder, WITHIN_S)
        records = served.records()
    assert ran.status != 0
    assert "The prompt is too long: this model's maximum context length is" in ran.output
    assert [record["error_code"] for record in records] == ["context_length_exceeded"] * len(records)
    assert len(records) <= 2
    assert upstream.accepted == []
