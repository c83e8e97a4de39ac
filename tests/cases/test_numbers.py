"""Numbers and bytes: nothing is parsed and written again that was not asked to change."""

from __future__ import annotations

import pytest

from tests.cases.case import case, request
from tests.cases.trial import tried, window
from tests.support.conversations import agent_run
from tests.support.scripted import reply

pytestmark = pytest.mark.anyio

CASES = {
    "B072": "numbers, escapes and key order of a request survive, shaped or not",
    "B073": "an answer is never written anew",
    "B160": "n, logprobs and the like are passed on; one max_tokens is reserved, the prompt being shared",
}
ODD = (
    b'"seed":9223372036854775807, "temperature":1.0,"x":1e21,"y":-0.0,"z":12345678901234567890123,'
    b'"w":"<b> & \\u00e9\\/", "logit_bias":{"50256":-100,"1":1E+2}, "dup":1,"dup":2,"":null'
)


async def test_a_request_that_fits_is_its_own_bytes() -> None:
    assert (await tried(case("B072")["raw_body"].encode())).untouched
    assert (await tried(b'\xef\xbb\xbf \n{ "messages" : [ ] }\n\n'.lstrip(b"\xef\xbb\xbf"))).untouched
    assert (await tried(request("B160"))).untouched


async def test_a_shaped_request_keeps_the_bytes_of_every_field_it_does_not_change() -> None:
    import msgspec

    messages = msgspec.json.encode(agent_run(30))
    odd_message = b'{"role":"user" ,"content":"\\u00e9 \\/","n":1.0,"big":12345678901234567890123, "e":1e21}'
    body = b'{"model":"m",' + ODD + b',"messages":' + messages[:-1] + b"," + odd_message + b"]}"
    trial = await tried(body, toml=window(8_192))
    sent = trial.asked[0].body
    assert sent != body
    for part in (
        b"9223372036854775807",
        b":1.0,",
        b":1e21",
        b"-0.0",
        b"12345678901234567890123",
        b"1E+2",
        b"\\u00e9\\/",
    ):
        assert part in sent, part
    assert odd_message in sent


ANSWERS = [
    b'{"id":"1","choices":[],"big":12345678901234567890}',
    b'{ "a" : 1.0 , "a":2, "u":"\\ud83d", "usage":{"prompt_tokens":1e3} }\n',
    b"\xff\xfe not json",
    b"",
    b"[]",
    b'{"choices":[{"finish_reason":"model_context_window_exceeded"}]}',
]


@pytest.mark.parametrize("body", ANSWERS)
async def test_an_answer_is_its_own_bytes(body: bytes) -> None:
    trial = await tried(case("B072")["raw_body"].encode(), reply(200, body, [(b"content-type", b"application/json")]))
    assert trial.answer.body == body
    assert trial.answer.headers["content-length"] == str(len(body))
