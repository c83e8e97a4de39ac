"""The routes of uploaded files: which requests are ours, and that a client key is asked for."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest

from tests.support.forms import form
from tests.support.holding import holding
from trimtab.server.files import serves_file

OURS = [
    ("GET", "/v1/files", True),
    ("GET", "/v1/files/file-1", True),
    ("GET", "/v1/files/file-1/content", True),
    ("DELETE", "/v1/files/file-1", True),
    ("DELETE", "/v1/files", False),
    ("DELETE", "/v1/files/file-1/content", False),
    ("POST", "/v1/files", False),  # its form says whose it is
    ("GET", "/v1/filesx", False),
    ("GET", "/v1/files/file-1/other", False),
    ("PATCH", "/v1/files/file-1", False),
]


@pytest.mark.parametrize(("method", "endpoint", "ours"), OURS)
def test_these_requests_are_ours(method: str, endpoint: str, ours: bool) -> None:
    assert serves_file(method, endpoint) is ours


@pytest.mark.anyio
async def test_a_client_key_is_asked_for_and_what_is_kept_is_in_the_log(tmp_path: Path) -> None:
    keys = '[server]\nclient_keys = ["' + "0" * 64 + '"]\n'
    raw, boundary = form({"purpose": "user_data"}, file=("a.txt", b"x", "text/plain"))
    typed = {"content-type": f"multipart/form-data; boundary={boundary}"}
    async with holding(tmp_path, keys) as stage, aiohttp.ClientSession() as session:
        url = stage.proxy.url + "/v1/files"
        for method, path, data in (("POST", "", raw), ("GET", "", b""), ("GET", "/file-" + "a" * 32, b"")):
            async with session.request(method, url + path, data=data, headers=typed) as answer:
                assert answer.status == 401
    async with holding(tmp_path) as stage, aiohttp.ClientSession() as session:
        async with session.post(stage.proxy.url + "/v1/files", data=raw, headers=typed) as answer:
            assert answer.status == 200
            request_id = answer.headers["x-trimtab-request-id"]
        log = stage.proxy.log.getvalue()
    assert f'"request_id":"{request_id}"' in log
    assert '"outcome":"stored"' in log
    assert "a.txt" not in log
