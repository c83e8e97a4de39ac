"""`trimtab serve`: what of the command line takes the place of the file. How it runs: tests/server/test_serve.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import run
from tests.support.chat import COMPLETION, post
from tests.support.conversations import chat
from tests.support.scripted import ScriptedUpstream, json_reply
from tests.support.served import serving


@pytest.mark.anyio
async def test_the_port_of_the_command_line_takes_the_place_of_the_files() -> None:
    """`serving` writes a file with a port that cannot be opened, and starts with `--port`."""
    async with (
        ScriptedUpstream(json_reply(COMPLETION)) as upstream,
        serving(upstream.base_url, "[server]\nport = 1\n") as served,
    ):
        answer = await post(served.url, {"model": "m", "messages": chat(0)})
    assert answer.status == 200


@pytest.mark.parametrize("port", ["70000", "-1", "http"])
def test_a_port_that_is_none_is_refused(port: str) -> None:
    done = run("serve", "--upstream", "http://127.0.0.1:9/v1", "--port", port)
    assert done.exit_code == 2
    assert "--port" in done.output


def test_the_host_of_the_command_line_is_held_to_the_same_rule(tmp_path: Path) -> None:
    path = tmp_path / "trimtab.toml"
    path.write_text('[[upstreams]]\nname = "a"\nbase_url = "http://127.0.0.1:9/v1"\napi_key = "sk-x"\n')
    done = run("serve", "--config", str(path), "--host", "0.0.0.0")
    assert "0.0.0.0" in str(done.exception)
    assert "client_keys" in str(done.exception)
