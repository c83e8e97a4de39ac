"""Requests and answers made to hold the event loop. While one is served, others are served as usual.

Each input is small on the wire or as large as is allowed, and cost seconds of silence before it was bounded. A real
`trimtab serve` answers it again and again, while 100 requests of others are measured. What they usually take is
measured in the same run, beside an ordinary large request that is served again and again: so the load of the machine,
and of the test itself, is in both.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import aiohttp
import brotli
import msgspec
import pytest

from tests.support.chat import COMPLETION
from tests.support.scripted import Received, ScriptedUpstream, Step, json_reply, reply
from tests.support.served import Served, serving

# With the slow ones, which run by themselves: beside other tests the waiting time of a request says nothing of ours.
pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300), pytest.mark.slow]

TOML = 'retries = 0\n[models."*"]\ncontext_size = 8192\nmax_output_tokens = 1024\n[limits]\ndiscover = false\n'
ATTEMPTS = 4
TWICE = 2  # times as long as usual the 99th percentile of the others may take

MESSAGE = b'{"role":"user","content":"a"}'
ANSWER = b'{"role":"assistant","content":"b"}'
PART = b'{"type":"text","text":"a"}'
CALL = b'{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}'
CYCLES = b",".join(
    b'{"role":"assistant","tool_calls":[{"id":"c%d","type":"function","function":{"name":"f","arguments":"{}"}}]},'
    b'{"role":"tool","tool_call_id":"c%d","content":"%d"}' % (i, i, i)
    for i in range(10_000)
)


SYSTEM = b'{"role":"system","content":"say %d"}'
PINNED = b'{"role":"user","content":"say %d","pinned":true}'


def calls_at_once(count: int) -> bytes:
    """A message with so many calls, and their results."""
    one = b'{"id":"c%d","type":"function","function":{"name":"f","arguments":"{}"}}'
    calls = b",".join(one % i for i in range(count))
    results = b",".join(b'{"role":"tool","tool_call_id":"c%d","content":"r"}' % i for i in range(count))
    return b'{"role":"assistant","tool_calls":[%b]},%b' % (calls, results)


def many(value: bytes, count: int) -> bytes:
    return b",".join([value] * count)


def chat(messages: bytes, fields: bytes = b"") -> bytes:
    return b'{"model":"m",%b"messages":[%b]}' % (fields, messages)


def said(text: bytes) -> bytes:
    return chat(b'{"role":"user","content":"%b"}' % text)


REQUESTS: dict[str, Callable[[], bytes]] = {
    "a million messages": lambda: chat(many(MESSAGE, 1_000_000)),
    "twenty million numbers": lambda: chat(many(b"0", 20_000_000)),
    "half a million calls": lambda: chat(b'{"role":"assistant","tool_calls":[%b]}' % many(CALL, 500_000)),
    "a million parts": lambda: chat(b'{"role":"user","content":[%b]}' % many(PART, 1_000_000)),
    "ten thousand small tool calls": lambda: chat(MESSAGE + b"," + CYCLES),
    "many tools": lambda: chat(MESSAGE, b'"tools":[%b],' % many(CALL, 300_000)),
    "two million fields": lambda: b"{%b}" % b",".join(b'"%d":1' % i for i in range(2_000_000)),
    "a message of 60 MB": lambda: said(b"the quick brown fox " * 3_000_000),
    "a message of 60 MB of Chinese": lambda: said("中".encode() * 20_000_000),
    "a message of 30 MB of escapes": lambda: said(b"\\u4e2d" * 5_000_000),
    "lone surrogates": lambda: said(b"\\ud800" * 5_000_000),
    "lists in lists": lambda: b"[" * 20_000_000,
    "a model's name of 20 MB": lambda: chat(MESSAGE).replace(b'"m"', b'"%b"' % (b"m" * 20_000_000)),
    "eighty thousand items": lambda: chat(many(MESSAGE + b"," + ANSWER, 40_000)),
    "ninety thousand system messages": lambda: chat(b",".join(SYSTEM % i for i in range(90_000)) + b"," + MESSAGE),
    "ninety thousand pinned messages": lambda: chat(b",".join(PINNED % i for i in range(90_000))),
    "forty thousand calls in a message": lambda: chat(MESSAGE + b"," + calls_at_once(40_000)),
    "fifteen thousand calls in a message": lambda: chat(MESSAGE + b"," + calls_at_once(15_000)),
    "forty thousand parts in a message": lambda: chat(b'{"role":"user","content":[%b]}' % many(PART, 40_000)),
    "something that is not JSON": lambda: said(b"a" * 30_000_000)[:-3],
}


@dataclass(frozen=True)
class Answer:
    """An answer of an upstream."""

    body: Callable[[], bytes]
    kind: bytes = b"text/event-stream"
    encoding: str = ""
    status: int = 200


EVENT = b"data: 1\n\n"
JSON = b"application/json"
WORDS = "maximum context length is 1 tokens 2 > 3 "
ANSWERS = {
    "a million events in 19 KB": Answer(lambda: EVENT * 1_000_000, encoding="gzip"),
    "a million events in brotli": Answer(lambda: EVENT * 1_000_000, encoding="br"),
    "comments in gzip": Answer(lambda: b":\n\n" * 1_000_000, encoding="gzip"),
    "2 MB of NUL in gzip": Answer(lambda: bytes(2_000_000), encoding="gzip"),
    "200 MB of NUL in gzip": Answer(lambda: bytes(200_000_000), encoding="gzip"),
    "error events in gzip": Answer(lambda: b'data: {"error":1}\n\n' * 500_000, encoding="gzip"),
    "blank lines": Answer(lambda: b"\n" * 10_000_000),
    "comments": Answer(lambda: b":\n\n" * 500_000),
    "a line without end": Answer(lambda: b"data: " + b"x" * 32_000_000),
    "an event of a million lines": Answer(lambda: b"data: 1\n" * 1_000_000 + b"\n"),
    "error events": Answer(lambda: b'data: {"error":{"message":"a"}}\n\n' * 200_000),
    "a usage of a million objects": Answer(lambda: b'{"usage":{"x":[%b]}}' % many(b"{}", 5_000_000), JSON),
    "an answer of 14 MB": Answer(lambda: b'{"x":"%b"}' % (b'finish_reason\\": \\"length\\" ' * 450_000), JSON),
    "an error of a million objects": Answer(lambda: b'{"error":[%b]}' % many(b"{}", 1_000_000), JSON),
    "lines of errors": Answer(lambda: b'{"error":1}\n' * 300_000, JSON),
    "an error of numbers": Answer(lambda: b"1 2 3 4 5 > " * 80_000, b"text/plain", status=400),
    "an error that repeats itself": Answer(
        lambda: msgspec.json.encode({"errors": [{"message": WORDS * n} for n in range(80, 92)]}), JSON, status=400
    ),
}
PACK = {"gzip": gzip.compress, "br": lambda body: brotli.compress(body, quality=5), "": bytes}


# A megabyte of a conversation, answered with a stream of 20,000 tokens: what is served beside others every day.
ORDINARY = chat(many(b'{"role":"user","content":"%b"}' % (b"the quick brown fox " * 50), 1_000)).replace(b'"m"', b'"o"')
TOKEN = b'{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"word "}}]}'


class Upstream:
    """Answers requests for the model `slow` with the answer at hand, ordinary ones with a stream, others at once."""

    def __init__(self) -> None:
        self.slow: list[Step] = json_reply(COMPLETION)
        self._stream = reply(200, b"data: %b\n\n" % TOKEN * 20_000, [(b"content-type", b"text/event-stream")])

    def __call__(self, received: Received) -> list[Step]:
        model = received.body[:12]
        return self.slow if b'"slow' in model else self._stream if b'"o"' in model else json_reply(COMPLETION)


# Measures in a process of its own: sending and receiving the large bodies here would be measured too. For each line
# that it reads it plans 100 small requests one after the other, and writes the second longest time of them: the 99th
# percentile.
PROBE = """
import http.client, sys, time
BODY = '{"model":"m","messages":[{"role":"user","content":"What is a trim tab?"}]}'
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
for _ in sys.stdin:
    taken = []
    for _ in range(100):
        began = time.perf_counter()
        connection.request("POST", "/v1/context/plan", BODY)
        assert connection.getresponse().read().startswith(b'{"model"')
        taken.append(time.perf_counter() - began)
    print(sorted(taken)[-2], flush=True)
"""


class Others:
    """The others, who make 100 requests when asked."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def wait(self) -> float:
        """Seconds that the 99th of 100 waits."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(b"\n")
        return float(await self._process.stdout.readline())


@contextlib.asynccontextmanager
async def asking(served: Served) -> AsyncIterator[Others]:
    probe = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROBE, str(served.port)), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    yield Others(probe)
    probe.kill()
    await probe.wait()


async def again_and_again(url: str, body: bytes, headers: dict[str, str]) -> None:
    async with aiohttp.ClientSession(auto_decompress=False) as session:
        while True:
            async with session.post(url + "/v1/chat/completions", data=body, headers=headers) as answer:
                async for _ in answer.content.iter_any():
                    pass


async def meanwhile(others: Others, url: str, body: bytes, headers: dict[str, str]) -> float:
    """Seconds that others wait while `body` is served."""
    serving = asyncio.ensure_future(again_and_again(url, body, headers))
    await asyncio.sleep(0.05)
    waited = await others.wait()
    assert not serving.done(), serving.exception()
    serving.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await serving
    return waited


async def check(served: Served, body: bytes, headers: dict[str, str]) -> None:
    """Others wait at most twice as long as they do beside an ordinary large request. A machine that does other things
    too gets some attempts: what stalls does so each time."""
    measured = []
    async with asking(served) as others:
        for _ in range(ATTEMPTS):
            usual = await meanwhile(others, served.url, ORDINARY, {})
            during = await meanwhile(others, served.url, body, headers)
            measured.append((round(usual * 1000, 1), round(during * 1000, 1)))
            if during <= TWICE * usual:
                return
    pytest.fail(f"milliseconds, as usual and meanwhile: {measured}")


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def upstream() -> Upstream:
    return Upstream()


@pytest.fixture(scope="module")
async def served(upstream: Upstream) -> AsyncIterator[Served]:
    async with ScriptedUpstream(upstream) as listening, serving(listening.base_url, TOML) as served:
        yield served


@pytest.mark.parametrize("name", REQUESTS)
async def test_no_request_makes_others_wait(name: str, served: Served) -> None:
    body = gzip.compress(REQUESTS[name](), 6)
    await check(served, body, {"content-encoding": "gzip"})


@pytest.mark.parametrize("name", ANSWERS)
async def test_no_answer_makes_others_wait(name: str, served: Served, upstream: Upstream) -> None:
    answer = ANSWERS[name]
    headers = [(b"content-type", answer.kind)]
    if answer.encoding:
        headers.append((b"content-encoding", answer.encoding.encode()))
    upstream.slow = reply(answer.status, PACK[answer.encoding](answer.body()), headers)
    await check(served, b'{"model":"slow","stream":true,"messages":[{"role":"user","content":"a"}]}', {})


async def test_what_is_refused_says_the_bound_and_its_setting(served: Served) -> None:
    async with aiohttp.ClientSession() as session:
        for name, setting in (("a million messages", "max_values"), ("many messages", "max_messages")):
            body = REQUESTS[name]() if name in REQUESTS else chat(many(b"{}", 150_000))
            async with session.post(served.url + "/v1/chat/completions", data=body) as answer:
                error = (await answer.json())["error"]
            assert (answer.status, error["code"]) == (413, "request_too_large")
            assert f"{setting} in [server]" in error["message"]
