"""The demo's proxy process: started as anyone would, and gone when the demo is."""

from __future__ import annotations

import os
import tempfile

import click
import httpx
import pytest

from trimtab.cli.demo.running import Running, environment


def test_it_starts_the_real_server_and_stops_it() -> None:
    with tempfile.TemporaryFile() as log:
        with Running("http://127.0.0.1:9/v1", 8192, 1024, log) as proxy:
            proxy.wait()
            body = {"model": "any", "messages": [{"role": "user", "content": "hi"}]}
            answer = httpx.post(f"{proxy.url}/v1/context/plan", json=body, trust_env=False).json()
            assert (answer["context_size"], answer["reserved_output"]) == (8192, 1024)
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{proxy.url}/healthz/live", trust_env=False)


def test_why_it_does_not_start_is_reported() -> None:
    with (
        tempfile.TemporaryFile() as log,
        pytest.raises(click.ClickException, match="base_url must begin with http"),
        Running("nonsense", 8192, 1024, log) as proxy,
    ):
        proxy.wait()


def test_the_users_own_settings_do_not_reach_it() -> None:
    given = environment(8192, 1024)
    assert given["LLM_CONTEXT_SIZE"] == "8192"
    assert not [name for name in given if name.startswith("TRIMTAB_")]
    assert given["PATH"] == os.environ["PATH"]
