"""`trimtab demo`, the real thing with few requests: SDK, server, strict upstream, each a process or thread."""

from __future__ import annotations

import re
import signal
from subprocess import PIPE, Popen

import click
import httpx
import pytest

from tests.cli.commands import command, environment, shell
from trimtab.cli.demo import require

for extra in ("openai", "bpe_openai"):
    pytest.importorskip(extra, reason="the demo's extra: pip install 'trimtab[demo]'")


def test_a_run_that_is_refused_without_the_proxy_survives_with_it() -> None:
    done = shell("demo", "--steps", "12", "--window", "16384")
    assert done.returncode == 0, done.stderr
    assert re.search(r"Without Trimtab: request \d+ is refused", done.stdout)
    assert "maximum context length is 16384 tokens" in done.stdout
    assert re.search(r"requests answered +\d of 12 +\d+ of \d+", done.stdout)
    assert re.search(r"refused +at request \d+: the end +0", done.stdout)
    assert "served from the cache" in done.stdout
    assert "\x1b" not in done.stdout, "no colours and no live drawing in a pipe"


def test_keep_leaves_both_running_and_says_how_to_reach_them() -> None:
    with Popen(command("demo", "--steps", "2", "--keep"), env=environment(), stdout=PIPE, text=True) as demo:
        assert demo.stdout is not None
        printed = ""
        while "/metrics" not in printed:
            line = demo.stdout.readline()
            assert line, f"the demo ended early:\n{printed}"
            printed += line
        (url,) = re.findall(r"curl -i (\S+)", printed)
        body = {"model": "demo", "messages": [{"role": "user", "content": "Hello"}]}
        answer = httpx.post(url, json=body, trust_env=False)
        demo.send_signal(signal.SIGTERM)
        demo.wait(30)
    assert answer.json()["choices"][0]["message"]["content"]
    assert answer.headers["x-trimtab-limit-source"]
    with pytest.raises(httpx.ConnectError):
        httpx.post(url, json=body, trust_env=False)


def test_without_the_extra_it_says_what_to_install() -> None:
    require("json")
    with pytest.raises(click.ClickException, match=r"pip install openai bpe-openai$"):
        require("json", "no_such_module")


def test_with_ui_the_run_is_watched_on_the_page_with_its_text() -> None:
    with Popen(command("demo", "--steps", "3", "--ui"), env=environment(), stdout=PIPE, text=True) as demo:
        assert demo.stdout is not None
        printed = ""
        while "/metrics" not in printed:
            line = demo.stdout.readline()
            assert line, f"the demo ended early:\n{printed}"
            printed += line
        (page,) = re.findall(r"Watch it in a browser: (\S+)", printed)
        with httpx.Client(trust_env=False) as client:
            shown = client.get(page).text
            exchanges = client.get(f"{page}/api/exchanges").json()["exchanges"]
        demo.send_signal(signal.SIGTERM)
        demo.wait(30)
    assert "<title>Trimtab</title>" in shown
    assert len(exchanges) == 3
    assert all(each["has_text"] for each in exchanges)
