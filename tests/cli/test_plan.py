"""`trimtab plan`: the same answer as the server's, for every form of a file."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cli.commands import run
from tests.dialects import items, turns
from tests.support.chat import post
from tests.support.served import serving
from trimtab.cli.plan import read_request
from trimtab.dialects.chat import CHAT

LONG = "a line of a log that goes on and on\n" * 400


def history(cycles: int) -> list[dict[str, Any]]:
    """A task and `cycles` tool calls with long results."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You are an agent."},
        {"role": "user", "content": "Find the error."},
    ]
    for i in range(cycles):
        call = {"id": f"c{i}", "type": "function", "function": {"name": "read", "arguments": f'{{"n": {i}}}'}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{i}", "content": f"{i} {LONG}"})
    return messages


BODY = {"model": "gpt-4o", "messages": history(12), "max_tokens": 1000}
OPTIONS = ("--context-size", "32768")


def planned(*arguments: str, stdin: bytes | None = None) -> dict[str, Any]:
    done = run("plan", *arguments, "--json", stdin=stdin)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.output)
    return found


FORMS: dict[str, bytes] = {
    "a request": json.dumps(BODY).encode(),
    "a transcript": json.dumps({"metadata": {"id": 1}, "tools": None, "messages": history(12)}).encode(),
    "a list": json.dumps(history(12)).encode(),
    "gzipped": gzip.compress(json.dumps(history(12)).encode()),
    "with a byte order mark": b"\xef\xbb\xbf" + json.dumps(history(12)).encode(),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_conversation_gives_the_same_plan(form: str) -> None:
    options = ("-", "--model", "gpt-4o", "--max-tokens", "1000", *OPTIONS)
    answer = planned(*options, stdin=FORMS[form])
    assert answer == planned(*options, stdin=FORMS["a list"])
    assert answer["edits"]
    assert answer["fits"]


def test_a_file_is_read_as_standard_input_is(tmp_path: Path) -> None:
    (tmp_path / "body.json").write_bytes(FORMS["a request"])
    assert planned(str(tmp_path / "body.json"), *OPTIONS) == planned("-", *OPTIONS, stdin=FORMS["a request"])


def agent_run(path: str) -> bytes:
    """A long run in the format of a path."""
    if path == "responses":
        listed = [items.message("Read."), *(raw for n in range(12) for raw in items.cycle(n, LONG))]
        return msgspec.json.encode({"model": "gpt-5", "input": [msgspec.Raw(raw) for raw in listed]})
    listed = [turns.user("Read."), *(raw for n in range(12) for raw in turns.cycle(n, LONG))]
    body = {"model": "claude-opus-4-8", "max_tokens": 500, "messages": [msgspec.Raw(raw) for raw in listed]}
    return msgspec.json.encode(body)


@pytest.mark.parametrize("path", ["responses", "messages"])
def test_the_other_formats_are_read_too(path: str) -> None:
    answer = planned("-", *OPTIONS, "--max-tokens", "1000", stdin=agent_run(path))
    assert answer["fits"]
    assert {edit["stage"] for edit in answer["edits"]} == {"cleared"}


@pytest.mark.parametrize(
    ("data", "printed"),
    [
        (b"not json", "FILE is not valid JSON"),
        (b'{"messages": [{"role"', "FILE is not valid JSON"),
        (b'{"prompt": "hello"}', "FILE must hold a request"),
        (b"\x1f\x8bbroken", "Cannot unzip FILE"),
        (b"", "FILE is not valid JSON"),
    ],
)
def test_what_is_no_conversation_is_refused_with_a_reason(data: bytes, printed: str) -> None:
    done = run("plan", "-", stdin=data)
    assert done.exit_code == 2
    assert printed in done.output


def test_options_beat_what_the_request_says() -> None:
    answer = planned("-", "--model", "gpt-4", stdin=FORMS["a request"])
    assert (answer["model"], answer["context_size"], answer["limit_source"]) == ("gpt-4", 8192, "bundled")
    body = read_request(FORMS["a request"], CHAT, max_tokens=5)
    assert body.max_tokens == 5
    completion = b'{"messages": [], "max_completion_tokens": 900}'
    assert read_request(completion, CHAT, max_tokens=5).max_tokens == 5


def test_the_window_given_is_named_as_the_source() -> None:
    answer = planned("-", *OPTIONS, stdin=FORMS["a request"])
    assert (answer["limit_source"], answer["limit_detail"]) == ("configured", "--context-size")


def test_a_profile_of_the_configuration_counts(tmp_path: Path) -> None:
    config = tmp_path / "trimtab.toml"
    config.write_text("[profiles.tiny]\nbudget = 5000\n")
    answer = planned("-", "--config", str(config), "--profile", "tiny", stdin=FORMS["a request"])
    assert answer["budget"] == 5000
    done = run("plan", "-", "--profile", "absent", stdin=FORMS["a request"])
    assert done.exit_code == 2
    assert "--profile: 'absent' is not known. Known: analysis, planner_input, replan." in done.output


def test_the_picture_says_what_happens_to_which_kind() -> None:
    printed = run("plan", "-", *OPTIONS, stdin=FORMS["a request"]).output
    for word in ("gpt-4o", "before", "after", "budget", "tool results", "Shaped to fit", "read"):
        assert word in printed
    assert "a line of a log" not in printed, "the text of the conversation is not shown"


def test_a_conversation_that_fits_is_sent_as_received() -> None:
    printed = run("plan", "-", "--model", "gpt-4o", stdin=json.dumps(history(1)).encode()).output
    assert "exactly as received" in printed


def test_one_that_cannot_fit_would_be_refused() -> None:
    body = json.dumps([{"role": "user", "content": LONG * 5}]).encode()
    printed = run("plan", "-", "--context-size", "8000", stdin=body).output
    assert "Would be refused" in printed


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_the_picture_keeps_to_the_width_of_the_terminal(width: int) -> None:
    printed = run("plan", "-", *OPTIONS, stdin=FORMS["a request"], width=width).output
    lines = printed.splitlines()
    assert max(map(len, lines)) <= width
    assert sum(line.startswith("tool results") for line in lines) == 1


def test_thousands_of_messages_fit_on_a_screen() -> None:
    body = json.dumps(history(2000)).encode()
    began = time.monotonic()
    printed = run("plan", "-", "--context-size", "200000", "--rows", "20", stdin=body).output
    assert len(printed.splitlines()) < 45
    assert time.monotonic() - began < 60


@pytest.mark.anyio
async def test_json_is_exactly_what_the_server_answers() -> None:
    """Same configuration, same body: a real server over HTTP, and the command."""
    bodies = [json.dumps({**BODY, "model": model}).encode() for model in ("gpt-4o", "claude-opus-4-5", "house")]
    toml = "[models.'*']\ncontext_size = 32768\n[limits]\ndiscover = false\n"
    async with serving("http://127.0.0.1:9/v1", toml) as served:
        answers = [(await post(served.url, body, "/v1/context/plan")).json() for body in bodies]
        config = str(served.folder / "trimtab.toml")
        assert answers == [planned("-", "--config", config, stdin=body) for body in bodies]
    assert all(answer["edits"] for answer in answers)


def test_the_body_that_would_be_sent() -> None:
    printed = run("plan", "-", "--body", *OPTIONS, stdin=FORMS["a request"])
    assert printed.exit_code == 0
    body = json.loads(printed.output)
    assert body["model"] == "gpt-4o"
    assert body["messages"][:2] == BODY["messages"][:2]
    assert body["messages"][-1] == BODY["messages"][-1]
    assert len(printed.output) < len(FORMS["a request"])
    assert run("plan", "-", "--body", stdin=b'{"model": "gpt-4o",  "messages": []}').output == (
        '{"model": "gpt-4o",  "messages": []}'
    )
