"""Bytes that were once a request: seeds, and what a blind hand does to them. The same seed gives the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random

from tests.support.odd_requests import ROWS
from tests.support.raw import request
from tests.support.scripted import chunk

_BODY = (
    b'{"model":"m","stream":true,"max_tokens":5,"tools":[{"type":"function","function":{"name":"f"}}],'
    b'"messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"\\ud83d\\ude00"}]},'
    b'{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f",'
    b'"arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"x"},{"role":"user","content":"go"}]}'
)
_ITEMS = (
    b'{"model":"m","stream":true,"max_output_tokens":5,"instructions":"s","tools":[{"type":"function","name":"f"}],'
    b'"input":[{"role":"user","content":"hi"},{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gA"},'
    b'{"type":"function_call","call_id":"a","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"a",'
    b'"output":[{"type":"input_text","text":"\\ud83d\\ude00"}]},{"type":"new_item","x":[1]},'
    b'{"type":"message","role":"assistant","content":[{"type":"output_text","text":"x"}]},{"role":"user","content":"go"}]}'
)
_BLOCKS = (
    b'{"model":"m","stream":true,"max_tokens":5,"system":[{"type":"text","text":"s"}],"tools":[{"name":"f",'
    b'"input_schema":{}}],"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]},{"role":"assistant",'
    b'"content":[{"type":"thinking","thinking":"t","signature":"x"},{"type":"tool_use","id":"a","name":"f","input":{}},'
    b'{"type":"tool_use","id":"b","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result",'
    b'"tool_use_id":"a","content":"\\ud83d\\ude00"},{"type":"tool_result","tool_use_id":"b","cache_control":'
    b'{"type":"ephemeral"}},{"type":"text","text":"go"}]},{"role":"system","content":"mind"}]}'
)
BODIES = {"chat": [_BODY, _BLOCKS], "responses": [_ITEMS], "messages": [_BLOCKS]}
SEEDS = [
    *(row.data for row in ROWS.values()),
    request(body=_BODY),
    request(b"/v1/responses", _ITEMS),
    request(b"/v1/responses", b'{"model":"m","input":"hi","previous_response_id":"r"}'),
    request(b"/v1/messages?beta=true", _BLOCKS, b"anthropic-version: 2023-06-01\r\nx-api-key: k\r\n"),
    request(b"/v1/context/plan", _BODY),
    request(b"/v1/context/plan", _ITEMS),
    request(b"/v1/context/plan", _BLOCKS),
    request(b"/v1/embeddings", chunk(_BODY) + b"0\r\n\r\n", b"transfer-encoding: chunked\r\n", length=False),
    request(b"/healthz/ready", b"", method=b"GET"),
    request(b"/metrics", b"", b"accept: application/openmetrics-text\r\n", b"GET"),
]
_WORDS = [
    *(b"\r\n", b"\n", b"\r", b"\0", b" ", b":", b"\xff", b"%00", b"%2e", b"..", b"//", b"/v1/", b"?", b"HTTP/1.1"),
    *(b"0", b"-1", b"9" * 20, b"1e999", b"A" * 9_000, b"{", b"[", b'"', b"\\ud800", b"null", b"chunked"),
    b"content-length: 0\r\n",
    b"transfer-encoding: chunked\r\n",
    b"content-encoding: br\r\n",
    b"x-trimtab-profile: \xe9\r\n",
    b"x-trimtab-hint: x\r\n",
    b"x-trimtab-bypass: true\r\n",
    b"x-request-id: \xff\r\n",
]


def mutated(seed: int, count: int) -> Iterator[bytes]:
    """`count` mutants of requests."""
    return mutants(Random(seed), SEEDS, count)


def mutants(random: Random, seeds: Sequence[bytes], count: int) -> Iterator[bytes]:
    """`count` mutants of some of the `seeds`."""
    for _ in range(count):
        data = bytearray(random.choice(seeds))
        for _ in range(random.choice((1, 1, 2, 3, 8))):
            random.choice(_HANDS)(data, random)
        yield bytes(data[:200_000])


def _flip(data: bytearray, random: Random) -> None:
    if data:
        data[random.randrange(len(data))] = random.randrange(256)


def _cut(data: bytearray, random: Random) -> None:
    start = random.randrange(len(data) + 1)
    del data[start : start + random.choice((1, 2, 10, 1_000))]


def _insert(data: bytearray, random: Random) -> None:
    at = random.randrange(len(data) + 1)
    data[at:at] = random.choice(_WORDS)


def _repeat(data: bytearray, random: Random) -> None:
    start = random.randrange(len(data) + 1)
    piece = data[start : start + random.choice((1, 10, 100))]
    data[start:start] = piece * random.choice((1, 2, 50))


def _splice(data: bytearray, random: Random) -> None:
    other = random.choice(SEEDS)
    data[random.randrange(len(data) + 1) :] = other[random.randrange(len(other)) :]


_HANDS: list[Callable[[bytearray, Random], None]] = [_flip, _cut, _insert, _repeat, _splice]
