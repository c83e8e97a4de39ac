"""`trimtab serve`: what of the command line takes the place of the file. How it runs: tests/server/test_serve.py."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.commands import command, environment, run
from tests.support.chat import COMPLETION, post
from tests.support.conversations import chat
from tests.support.scripted import ScriptedUpstream, closed_port, json_reply
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


@pytest.mark.anyio
@pytest.mark.parametrize("port", ["0", "tcp://10.96.0.1:8080"])
async def test_upstream_and_port_can_come_from_the_environment(port: str) -> None:
    """TRIMTAB_PORT as Kubernetes sets it for a Service named trimtab is not a port: the default or `--port` counts."""
    async with (
        ScriptedUpstream(json_reply(COMPLETION)) as upstream,
        serving("http://127.0.0.1:9/v1", env={"TRIMTAB_UPSTREAM": upstream.base_url, "TRIMTAB_PORT": port}) as served,
    ):
        answer = await post(served.url, {"model": "m", "messages": chat(0)})
    assert answer.status == 200


def test_a_port_from_the_environment_is_listened_on() -> None:
    port = closed_port()
    env = environment({"TRIMTAB_PORT": str(port), "TRIMTAB_UPSTREAM": "http://127.0.0.1:9/v1"})
    with subprocess.Popen(command("serve"), env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as served:
        try:
            assert eventually(lambda: socket.create_connection(("127.0.0.1", port), 1))
        finally:
            served.kill()


def eventually(connect: Callable[[], socket.socket], within_s: float = 30.0) -> bool:
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            connect().close()
            return True
        time.sleep(0.05)
    return False


def test_an_environment_port_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIMTAB_PORT", "http")
    done = run("serve", "--upstream", "http://127.0.0.1:9/v1")
    assert done.exit_code == 2
    assert "'http' is not a valid" in done.output
