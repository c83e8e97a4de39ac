"""Parts that name a file: sent with the file itself, while all other bytes of the request stay."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from trimtab.conversations.references import Content, added_size, named, rebuilt

ID, OTHER = "file-" + "a1" * 16, "file-" + "b2" * 16
FILES = {ID: Content("straße.txt", "text/plain", b"hello")}
URL = "data:text/plain;base64,aGVsbG8="


def of_chat(*parts: Any) -> bytes:
    return msgspec.json.encode({"model": "m", "messages": [{"role": "user", "content": list(parts)}]})


def of_responses(*parts: Any) -> bytes:
    return msgspec.json.encode({"input": [{"role": "user", "content": list(parts)}], "model": "m"})


def test_a_file_of_a_chat() -> None:
    sent = rebuilt(of_chat({"type": "text", "text": "Read."}, {"type": "file", "file": {"file_id": ID}}), "chat", FILES)
    file = {"filename": "straße.txt", "file_data": URL}
    assert sent == of_chat({"type": "text", "text": "Read."}, {"type": "file", "file": file})


def test_files_and_images_of_responses() -> None:
    parts = [
        {"type": "input_file", "file_id": ID},
        {"type": "input_file", "filename": "mine.txt", "file_id": ID},
        {"type": "input_image", "file_id": ID, "detail": "low"},
    ]
    sent = msgspec.json.decode(rebuilt(of_responses(*parts), "responses", FILES))
    assert sent["input"][0]["content"] == [
        {"type": "input_file", "filename": "straße.txt", "file_data": URL},
        {"type": "input_file", "filename": "mine.txt", "file_data": URL},
        {"type": "input_image", "detail": "low", "image_url": URL},
    ]


def test_what_a_tool_gave_may_name_files_too() -> None:
    output = {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_image", "file_id": ID}]}
    sent = msgspec.json.decode(rebuilt(msgspec.json.encode({"input": [output]}), "responses", FILES))
    assert sent["input"][0]["output"] == [{"type": "input_image", "image_url": URL}]


def test_everything_else_keeps_its_bytes() -> None:
    plain = b'{ "role":"user", "x":1e21,\n "content":"\\u00e9" }'
    part = b'{"type":"input_file","file_id":"%b","z":1.50}' % ID.encode()
    body = b'{"n":1.0,"input":[%b,{"role":"user","content":[%b]}],"model":"m"}' % (plain, part)
    sent = rebuilt(body, "responses", FILES)
    assert plain in sent
    assert sent.startswith(b'{"n":1.0,"input":[')
    assert b'"z":1.50' in sent
    assert sent == rebuilt(body, "responses", FILES)


@pytest.mark.parametrize(
    "part",
    [
        {"type": "input_file", "file_id": OTHER},
        {"type": "input_file", "file_id": 5},
        {"type": "input_text", "text": "x", "file_id": ID},
        {"type": "file", "file": "x", "file_id": ID},
        {"type": "file", "file_id": ID},
        ["file_id", ID],
    ],
)
def test_other_parts_stay_as_they_are(part: Any) -> None:
    for dialect, body in (("chat", of_chat(part)), ("responses", of_responses(part))):
        assert rebuilt(body, dialect, FILES) == body  # type: ignore[arg-type]


@pytest.mark.parametrize("body", [b"", b"[]", b'{"input":"text"}', b'{"input":{"file_id":1}}', b"\xff", b"[" * 100_000])
def test_what_cannot_be_read_stays_as_it_is(body: bytes) -> None:
    assert rebuilt(body, "responses", FILES) == body


def test_only_ids_that_are_made_here_are_looked_for() -> None:
    text = {"type": "text", "text": f'{{"file_id":"{OTHER}"}}'}  # in a text, quotes are escaped
    openais = {"type": "file", "file": {"file_id": "file-abc123ABC456def789ghij"}}
    body = of_chat(text, openais, {"type": "file", "file": {"file_id": ID}}, {"type": "input_file", "file_id": ID})
    assert named(body) == [ID, ID]
    assert named(b'{"file_id" :\n "%b"}' % ID.encode()) == [ID]
    assert named(of_chat(text)) == []


@pytest.mark.parametrize("size", [0, 1, 3, 1_000, 100_000])
def test_the_added_size_is_about_what_is_added(size: int) -> None:
    body = of_chat({"type": "file", "file": {"file_id": ID}})
    sent = rebuilt(body, "chat", {ID: Content("a.txt", "text/plain", bytes(size))})
    assert 0 <= added_size(size) - (len(sent) - len(body)) <= 250
