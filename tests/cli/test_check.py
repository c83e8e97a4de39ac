"""`trimtab check`: each finding with what to do, and an exit code to build on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from click.testing import Result

from tests.cli.commands import run, shell
from tests.support.scripted import CLOSE, Script, ScriptedUpstream, closed_port, json_reply, reply
from tests.support.valkey import Valkey

pytestmark = pytest.mark.anyio

LIST = json_reply({"object": "list", "data": [{"id": "a"}, {"id": "b"}]})


async def check(*arguments: str) -> Result:
    """In this process, but in a thread: the command brings a loop of its own."""
    return await anyio.to_thread.run_sync(lambda: run("check", *arguments, width=400))


def line(done: Result, what: str) -> str:
    """The line about `what`."""
    return next(line for line in done.output.splitlines() if f"  {what}:" in line)


@pytest.mark.parametrize(
    ("script", "key", "state", "printed"),
    [
        (LIST, None, "ok", "2 models"),
        (reply(401), None, "ok", "clients must send theirs"),
        (reply(401), "sk-wrong", "failed", "rejects the configured key"),
        (reply(404), None, "note", "base_url may lack its /v1"),
        (reply(500), None, "failed", "answers 500"),
        (reply(200, b"<html>"), None, "note", "OpenAI-compatible"),
        ([CLOSE], None, "failed", "upstream"),
    ],
    ids=["a list", "wants a key", "wrong key", "no list", "broken", "a web page", "hangs up"],
)
async def test_an_upstream_is_judged_by_its_answer(
    tmp_path: Path, script: Script, key: str | None, state: str, printed: str
) -> None:
    async with ScriptedUpstream(script) as upstream:
        config = tmp_path / "trimtab.toml"
        config.write_text(
            f"[[upstreams]]\nname = 'house'\nbase_url = '{upstream.base_url}'\n"
            + (f"api_key = '{key}'\n" if key else "")
        )
        done = await check("--config", str(config))
    found = line(done, "upstream house")
    assert found.startswith(state)
    assert printed in found
    assert done.exit_code == (state == "failed")
    assert upstream.requests[0].target == "/v1/models"
    assert "sk-wrong" not in done.output


async def test_no_configuration_is_needed() -> None:
    async with ScriptedUpstream(LIST) as upstream:
        done = await anyio.to_thread.run_sync(lambda: shell("check", "--upstream", upstream.base_url))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "built-in defaults" in done.stdout


async def test_an_upstream_that_is_down_fails() -> None:
    done = await check("--upstream", f"http://127.0.0.1:{closed_port()}/v1")
    assert done.exit_code == 1
    assert "Check base_url" in line(done, "upstream default")


@pytest.mark.parametrize(
    ("text", "what", "printed"),
    [
        ("[shaping]\ntargt = 0.5\n", "configuration", "Nearest: target"),
        ("", "configuration", "No upstream"),
        (
            "[[upstreams]]\nname = 'a'\nbase_url = 'http://127.0.0.1:9/v1'\napi_key = 'k'\n"
            "[server]\nhost = '0.0.0.0'\n",
            "exposure",
            "client_keys",
        ),
        (
            "[[upstreams]]\nname = 'a'\nbase_url = 'http://127.0.0.1:9/v1'\n[limits]\ntable = '/nowhere.json'\n",
            "model table",
            "trimtab models --refresh",
        ),
        (
            "[[upstreams]]\nname = 'a'\nbase_url = 'http://127.0.0.1:9/v1'\nmodels = ['a*']\n"
            "[compaction]\nmodel = 'fast'\n",
            "summaries",
            "No upstream serves the model 'fast'",
        ),
    ],
    ids=["a typo", "no upstream", "exposed keys", "no table", "summary model"],
)
async def test_what_is_wrong_with_a_configuration(tmp_path: Path, text: str, what: str, printed: str) -> None:
    config = tmp_path / "trimtab.toml"
    config.write_text(text)
    done = await check("--config", str(config))
    assert done.exit_code == 1
    assert line(done, what).startswith("failed")
    assert printed in line(done, what)


async def test_an_upstream_behind_one_that_takes_everything_is_noted(tmp_path: Path) -> None:
    async with ScriptedUpstream(LIST) as upstream:
        config = tmp_path / "trimtab.toml"
        config.write_text(
            "".join(f"[[upstreams]]\nname = '{name}'\nbase_url = '{upstream.base_url}'\n" for name in ("a", "b"))
        )
        done = await check("--config", str(config))
    assert done.exit_code == 0
    assert "never gets a request, because a comes first" in done.output


@pytest.mark.parametrize(
    ("user", "state", "printed"),
    [
        ("house:secret-word@", "ok", "answers"),
        ("reader:secret-word@", "failed", "accepts writes"),
        ("house:another@", "failed", "uses a store in its own process"),
    ],
    ids=["may write", "may only ping", "wrong password"],
)
async def test_redis_is_asked_to_answer_and_to_store(
    tmp_path: Path, redis: Valkey, user: str, state: str, printed: str
) -> None:
    done = await with_redis(tmp_path, f"redis://{user}{redis.address}/0")
    assert line(done, "redis").startswith(state)
    assert printed in line(done, "redis")
    assert done.exit_code == (state == "failed")
    assert not {"secret-word", "another"} & set(line(done, "redis").replace(":", " ").split())


@pytest.mark.parametrize(
    ("url", "printed"),
    [("redis://127.0.0.1:9/0", "check that it runs"), ("mysql://127.0.0.1/0", "redis://")],
    ids=["not running", "not a Redis address"],
)
async def test_redis_that_cannot_be_had(tmp_path: Path, url: str, printed: str) -> None:
    done = await with_redis(tmp_path, url)
    assert done.exit_code == 1
    assert printed in line(done, "redis")


@pytest.fixture(scope="module")
def redis() -> Iterator[Valkey]:
    server = Valkey()
    client = server.client()
    for name, commands in (("house", ["+@all"]), ("reader", ["+ping", "+client", "+hello", "+select"])):
        client.acl_setuser(name, enabled=True, passwords=["+secret-word"], keys=["*"], commands=commands)
    yield server
    server.stop()


async def with_redis(folder: Path, url: str) -> Result:
    async with ScriptedUpstream(LIST) as upstream:
        config = folder / "trimtab.toml"
        config.write_text(f"[[upstreams]]\nname = 'a'\nbase_url = '{upstream.base_url}'\n[redis]\nurl = '{url}'\n")
        return await check("--config", str(config))
