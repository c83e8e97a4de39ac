"""The page in a real browser: it shows what happened, with the figures of the metrics and the bytes that were sent; it
can be used by everyone; and nothing in a conversation can make it do anything.
"""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cli.commands import command, environment
from tests.support.browser import browsing, numbers
from tests.support.chat import COMPLETION, WINDOW, post, token_counts
from tests.support.conversations import agent_run, chat
from tests.support.pages import read
from tests.support.running import running, sample
from tests.support.scripted import Received, ScriptedUpstream, Step, json_reply
from trimtab.resources import page_files

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

TEXT = f"{WINDOW}[ui]\ntext = true\n"
PLACES = [
    ("now", "table.requests tbody tr"),
    ("conversation", ".messages .listed"),
    ("compare/2", ".pairs .listed"),
    ("models", "table tbody tr"),
]


def counting(received: Received) -> list[Step]:
    """Answers with a usage, three quarters of it cached."""
    tokens = len(received.body) // 4
    usage = {
        "prompt_tokens": tokens,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": tokens * 3 // 4},
    }
    return json_reply({**COMPLETION, "usage": usage})


async def test_requests_appear_while_they_happen() -> None:
    async with (
        ScriptedUpstream(counting) as upstream,
        running(upstream.base_url, WINDOW) as proxy,
        browsing(proxy.url) as seen,
    ):
        page = await seen.open("now", ".empty")
        assert "trimtab demo --ui" in await page.inner_text(".empty")
        answers = [await post(proxy.url, {"model": "m", "messages": agent_run(n)}) for n in (2, 20, 40)]
        await page.wait_for_selector("table.requests tbody tr:nth-child(3)")
        rows = [await row.inner_text() for row in await page.query_selector_all("table.requests tbody tr")]
        await page.wait_for_selector(".card b:text-is('3')")
        sent = await page.inner_text(".card:nth-child(3) b")
        metrics = await proxy.metrics()
        state = await page.inner_text("#state")
    for row, answer in zip(reversed(rows), answers, strict=True):
        sizes = token_counts(answer)
        assert f"{sizes['original']:,} → {sizes['sent']:,} of {sizes['budget']:,}" in row
    assert numbers(sent) == [sample(metrics, 'trimtab_tokens_total{kind="sent",model="m"}')]
    assert (state, seen.complaints) == ("Live", [])


async def test_the_picture_of_a_conversation_has_the_figures_of_the_metrics() -> None:
    async with (
        ScriptedUpstream(counting) as upstream,
        running(upstream.base_url, f"{WINDOW}[shaping]\nextract_share = 0.1\n") as proxy,
        browsing(proxy.url) as seen,
    ):
        answers = [await post(proxy.url, {"model": "m", "messages": chat(n)}) for n in (1, 20, 40)]
        page = await seen.open("conversation", ".plot canvas")
        await page.click("text=All figures as a table")
        await page.wait_for_selector("details tbody tr:nth-child(3)")
        rows = [
            [numbers(await cell.inner_text()) for cell in await row.query_selector_all("th, td")]
            for row in await page.query_selector_all("details tbody tr")
        ]
        picture = await page.get_attribute(".plot [role=img]", "aria-label")
        divider = await page.inner_text(".divider")
        reasons = await page.inner_text(".chosen table")
        metrics = await proxy.metrics()
    flat = [[number for cell in row for number in cell or [0]] for row in rows]
    for row, answer in zip(flat, answers, strict=True):
        sizes = token_counts(answer)
        assert row[1:4] == [sizes["original"], sizes["sent"], sizes["budget"]]
        assert sum(row[4:11]) == sizes["sent"]
    assert sum(row[2] for row in flat) == sample(metrics, 'trimtab_tokens_total{kind="sent",model="m"}')
    assert sum(row[12] for row in flat) == sample(metrics, 'trimtab_cached_tokens_total{model="m"}')
    assert picture is not None
    assert numbers(picture)[:2] == [3, flat[-1][1]]
    dropped = int(answers[-1].headers["x-trimtab-edits"].partition("dropped=")[2].partition(",")[0])
    assert divider.startswith(f"earlier: {dropped} messages, kept as an extract of ")
    assert "oldest part of the conversation" in reasons
    assert seen.complaints == []


async def test_another_request_of_a_conversation_is_chosen_with_the_keys() -> None:
    async with (
        ScriptedUpstream(counting) as upstream,
        running(upstream.base_url, WINDOW) as proxy,
        browsing(proxy.url) as seen,
    ):
        for n in (2, 20, 40):
            await post(proxy.url, {"model": "m", "messages": agent_run(n)})
        page = await seen.open("now", "table.requests")
        await page.keyboard.press("2")
        await page.wait_for_selector("text=Request 3:")
        await page.focus("#request")
        await page.keyboard.press("ArrowLeft")
        await page.wait_for_selector("text=Request 2:")
        spoken = await page.get_attribute("#request", "aria-valuetext")
        assert spoken is not None
        assert spoken.startswith("request 2 of 3: sent ")
        await post(proxy.url, {"model": "m", "messages": agent_run(41)})
        await page.wait_for_selector("#request[max='4']")
        assert "Request 2:" in await page.inner_text(".chosen")  # what was chosen stays
    assert seen.complaints == []


async def test_before_and_after_are_the_bytes_that_came_and_went() -> None:
    body = {"model": "m", "messages": agent_run(40)}
    async with (
        ScriptedUpstream(counting) as upstream,
        running(upstream.base_url, TEXT) as proxy,
        browsing(proxy.url) as seen,
    ):
        await post(proxy.url, body)
        page = await seen.open("compare/1", ".pairs .listed")
        shown = await page.inner_text(".total")
        await page.click(".pair.edited")
        await page.click("text=as JSON")
        before, after = await page.inner_text("pre.before"), await page.inner_text("pre.after")
        removed = await page.inner_text("pre.before del")
        await page.keyboard.press("Escape")
        await page.fill("#set-target", "0.95")
        await page.wait_for_selector("text=As it would be sent.")
        fewer = await page.inner_text(".total")
        api = await read(proxy.url, "/plan", {"number": 1, "shaping": {"target": 0.95}})
    messages = msgspec.json.decode(upstream.requests[0].body, type=dict[str, msgspec.Raw])["messages"]
    sent = [bytes(raw).decode() for raw in msgspec.json.decode(messages, type=list[msgspec.Raw])]
    assert before == msgspec.json.encode(body["messages"][3]).decode()
    assert after == sent[3] != before
    assert "page 0" in removed
    assert f"{len(msgspec.json.encode(body)):,} → {len(upstream.requests[0].body):,} bytes" in shown
    assert f"→ {api['plan']['tokens']['sent']:,} tokens" in fewer
    assert seen.complaints == []


async def test_a_pasted_request_and_an_opened_file_are_planned(tmp_path: Path) -> None:
    file = tmp_path / "transcript.json"
    file.write_bytes(msgspec.json.encode(chat(60)))
    async with ScriptedUpstream() as upstream, running(upstream.base_url, WINDOW) as proxy, browsing(proxy.url) as seen:
        page = await seen.open("compare", ".empty")
        await page.fill("#body", '{"model": "m", "messages": [')
        await page.click("text=Plan it")
        assert "not JSON" in await page.inner_text(".failed")
        await page.fill("#body", msgspec.json.encode({"model": "m", "messages": chat(1)}).decode())
        await page.click("text=Plan it")
        await page.wait_for_selector("text=The bytes are those received.")
        await page.set_input_files("#file", file)
        await page.wait_for_selector("text=in the gap")
        assert "Edits: dropped" in await page.inner_text(".total")
        assert upstream.requests == []
    assert seen.complaints == []


SCRIPT = "</script><img src=x onerror=\"alert('x')\"><script>alert('y')</script>'\"`${alert('z')}"


async def test_nothing_in_a_conversation_can_make_the_page_do_anything() -> None:
    """Text, names, ids, the model's name and what an upstream says: all are shown, none is run."""
    call = {"id": SCRIPT, "type": "function", "function": {"name": SCRIPT, "arguments": SCRIPT}}
    hostile: list[dict[str, Any]] = [
        {"role": "system", "content": SCRIPT},
        {"role": "user", "name": SCRIPT, "content": [{"type": "text", "text": SCRIPT}, {"type": SCRIPT}]},
        *(
            message
            for _ in range(30)
            for message in (
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": SCRIPT, "content": SCRIPT * 20},
            )
        ),
        {"role": SCRIPT, "content": SCRIPT},
    ]
    async with (
        ScriptedUpstream(json_reply({**COMPLETION, "id": SCRIPT, "model": SCRIPT})) as upstream,
        running(upstream.base_url, f'{TEXT}[telemetry]\nlog_level = "error"\n') as proxy,
        browsing(proxy.url) as seen,
    ):
        for _ in range(2):
            await post(proxy.url, {"model": SCRIPT, "messages": hostile}, x_request_id="<b>id</b>")
        for place, shown in PLACES:
            page = await seen.open(place, shown)
            await page.wait_for_timeout(200)
            assert await page.evaluate("document.querySelectorAll('main script, main img, main b > b').length") == 0
        await seen.open("compare/2", ".pairs .listed")
        await page.click(".pair")
        assert await page.inner_text("pre.before") == SCRIPT
        await page.goto(f"{proxy.url}/ui#conversation/{SCRIPT}")
        await page.reload()
        await page.wait_for_selector(".failed")
    assert [each for each in seen.complaints if "404" not in each] == []


async def test_with_a_key_the_page_asks_for_it_and_keeps_no_cookie() -> None:
    digest = hashlib.sha256(b"secret").hexdigest()
    async with (
        ScriptedUpstream(counting) as upstream,
        running(upstream.base_url, f'{WINDOW}[ui]\nkeys = ["{digest}"]\n') as proxy,
        browsing(proxy.url) as seen,
    ):
        await post(proxy.url, {"model": "m", "messages": chat(1)})
        page = await seen.open("now", "#key[open]")
        await page.fill("#key input", "wrong")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("#key-wrong:has-text('unknown key')")
        await page.fill("#key input", "secret")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("table.requests tbody tr")
        assert await page.context.cookies() == []
        assert "secret" not in await page.content()


async def test_a_proxy_that_stops_is_seen_and_seen_again_when_it_is_back() -> None:
    async with browsing("") as seen:
        port = None
        async with ScriptedUpstream(counting) as upstream, running(upstream.base_url, WINDOW) as proxy:
            seen.origin = proxy.url
            port = int(proxy.url.rpartition(":")[2])
            page = await seen.open("now", "#state.live")
            await seen.open("models", "main h2")
            proxy.parts.load.leaving = True
            await page.wait_for_selector("#state.lost")
        assert port
        await page.wait_for_selector(".failed")
        assert "does not answer" in await page.inner_text(".failed")


async def test_ten_thousand_messages_are_shown_without_a_stutter() -> None:
    """Scrolling them from end to end, a hundred jumps to other rows, takes the page no more work than scrolling two
    thousand: in seconds of its thread, so that what else the machine does is not counted."""
    taken = []
    async with ScriptedUpstream(counting) as upstream, running(upstream.base_url, TEXT) as proxy:
        for messages in (agent_run(1_000, 30), agent_run(5_000, 30)):
            await post(proxy.url, {"model": "m", "messages": messages})
        async with browsing(proxy.url) as seen:
            for number in (1, 2):
                page = await seen.open(f"compare/{number}", ".pairs .listed")
                await page.reload()
                await page.wait_for_selector(".pairs .listed")
                session = await page.context.new_cdp_session(page)
                await session.send("Performance.enable", {"timeDomain": "threadTicks"})
                before = await work(session)
                assert await page.evaluate(_SCROLL) < 60
                taken.append(await work(session) - before)
            page = await seen.open("conversation", ".messages .listed")
            assert await page.get_attribute(".messages .listed", "aria-setsize") in ("10002", "10003")
        assert seen.complaints == []
    assert taken[1] < taken[0] * 2


async def work(session: Any) -> float:
    """Seconds that the page's thread has worked so far: scripts, styles, layout."""
    metrics = (await session.send("Performance.getMetrics"))["metrics"]
    return sum(each["value"] for each in metrics if each["name"] in _WORK)


_WORK = ("ScriptDuration", "RecalcStyleDuration", "LayoutDuration")
# Scrolls a hundred times, and returns the most rows that were in the page at once.
_SCROLL = """async () => {
  const rows = document.querySelector('.pairs'); let most = 0;
  for (let i = 0; i <= 100; i++) {
    rows.scrollTop = rows.scrollHeight * i / 100;
    await new Promise(requestAnimationFrame);
    await new Promise(requestAnimationFrame);
    most = Math.max(most, rows.querySelectorAll('.listed').length);
  }
  return most;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_no_violation(scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.async_playwright", reason="pip install axe-playwright-python")
    async with (
        ScriptedUpstream(counting) as upstream,
        running(upstream.base_url, f"{TEXT}[shaping]\nextract_share = 0.1\n") as proxy,
        browsing(proxy.url, color_scheme=scheme) as seen,
    ):
        found = {}
        page = await seen.open("now", ".empty")
        found["empty"] = await axe.Axe().run(page)
        await post(proxy.url, {"model": "m", "messages": agent_run(40)})
        await post(proxy.url, {"model": "m", "messages": chat(40)})
        for place, shown in PLACES:
            await seen.open(place, shown)
            await page.wait_for_timeout(300)
            found[place] = await axe.Axe().run(page)
        await seen.open("compare/2", ".pairs .listed")
        await page.click(".pair.gone")
        found["a message"] = await axe.Axe().run(page)
        await page.keyboard.press("Escape")
        await seen.open("compare/99", ".failed")
        found["an error"] = await axe.Axe().run(page)
    wrong = {
        place: [(v["id"], [n["html"][:120] for n in v["nodes"]][:3]) for v in each.response["violations"]]
        for place, each in found.items()
    }
    assert {place: each for place, each in wrong.items() if each} == {}


@pytest.mark.parametrize(("width", "height"), [(360, 740), (1280, 900), (3840, 2160)])
async def test_it_fits_every_width(width: int, height: int) -> None:
    async with (
        ScriptedUpstream(counting) as upstream,
        running(upstream.base_url, TEXT) as proxy,
        browsing(proxy.url, width, height) as seen,
    ):
        for n in (2, 40):
            await post(proxy.url, {"model": "m" * 40, "messages": agent_run(n)})
        for place, shown in PLACES:
            page = await seen.open(place, shown)
            wide, seen_wide = await page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
            assert wide <= seen_wide, place
    assert seen.complaints == []


async def test_terms_are_explained_on_hover_and_on_focus() -> None:
    async with ScriptedUpstream() as upstream, running(upstream.base_url, WINDOW) as proxy, browsing(proxy.url) as seen:
        page = await seen.open("now", ".card")
        await post(proxy.url, {"model": "m", "messages": chat(1)})
        await page.hover("thead .word:has-text('ours')")
        box = await page.locator("thead .tip:visible").bounding_box()
        assert box is not None
        assert box["width"] > 150
        assert box["x"] + box["width"] <= 1280
        await page.hover(".word:has-text('Not sent')")
        assert await page.is_visible(".tip:has-text('minus what summaries cost')")
        await page.focus(".word:has-text('From the cache')")
        described = await page.get_attribute(".word:has-text('From the cache')", "aria-describedby")
        assert await page.inner_text(f"#{described}")


VENDORED = {  # uPlot 1.6.32, as its package has it
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}


def test_the_library_of_the_page_is_the_one_that_was_published() -> None:
    files = page_files()
    assert {name: hashlib.sha256(files[name]).hexdigest() for name in VENDORED} == VENDORED
    assert b"The MIT License" in files["uPlot.LICENSE.txt"]


def test_the_page_builds_no_markup_from_text() -> None:
    own = [(name, data.decode()) for name, data in page_files().items() if not name.startswith("uPlot")]
    forbidden = (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "http://",
        "https://",
    )
    assert [(n, word) for n, text in own for word in forbidden if word in text and n != "icon.svg"] == []
    page = dict(own)["index.html"]
    assert " on" not in page.replace(" one", "")
    assert "style=" not in page


async def test_the_demos_run_appears_while_it_goes_on() -> None:
    for extra in ("openai", "bpe_openai"):
        pytest.importorskip(extra, reason="the demo's extra: pip install 'trimtab[demo]'")
    made = command("demo", "--ui", "--steps", "40", "--window", "16384")
    demo = await asyncio.create_subprocess_exec(*made, env=environment(), stdout=asyncio.subprocess.PIPE)
    assert demo.stdout is not None
    try:
        printed = ""
        while "Watch it" not in printed:
            printed += (await demo.stdout.readline()).decode()
        origin = printed.rpartition("browser: ")[2].removesuffix("/ui\n")
        async with browsing(origin) as seen:
            page = await seen.open("now", "table.requests tbody tr:nth-child(2)")
            while "Running until" not in printed:
                printed += (await demo.stdout.readline()).decode()
            requests = numbers(printed.partition("requests answered")[2])[2]
            await page.wait_for_selector(f".card b:text-is('{requests}')")
            newest = await page.inner_text("table.requests tbody tr:first-child")
            await seen.open("conversation", ".divider")
            picture = await page.get_attribute(".plot [role=img]", "aria-label")
        assert "shaped" in newest
        assert picture is not None
        assert numbers(picture)[0] == requests
        assert numbers(picture)[2] <= numbers(picture)[3] == 14_336
        assert seen.complaints == []
    finally:
        demo.terminate()
        await demo.communicate()


async def test_another_process_at_the_same_address_is_followed_from_its_first_exchange() -> None:
    async with ScriptedUpstream(counting) as upstream, browsing("") as seen:
        async with running(upstream.base_url, WINDOW) as first:
            seen.origin = first.url
            page = await seen.open("now", "#state.live")
            for n in (1, 2, 3):
                await post(first.url, {"model": "first", "messages": chat(n)})
            await page.wait_for_selector("table.requests tbody tr:nth-child(3)")
            first.parts.load.leaving = True
            await page.wait_for_selector("#state.lost")
        port = int(first.url.rpartition(":")[2])
        async with running(upstream.base_url, WINDOW, at=port) as second:
            await post(second.url, {"model": "second", "messages": chat(1)})
            await page.wait_for_selector("table.requests tbody tr:has-text('second')")
            await page.wait_for_selector("#state.live")
            assert await page.locator("table.requests tbody tr").count() == 1
            second.parts.load.leaving = True  # the stream of events ends, as when a server is asked to stop
