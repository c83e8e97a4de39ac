"""Raw bytes against the server: no 500, no hang, nothing held, no text of theirs in our log.

More of them: TRIMTAB_FUZZ=100000 python -m pytest tests/fuzz/test_bytes.py; another beginning: TRIMTAB_FUZZ_SEED=2.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re

import pytest

from tests.fuzz.house import obliging
from tests.fuzz.mutation import mutated
from tests.support.raw import opened, request
from tests.support.running import running
from tests.support.scripted import ScriptedUpstream

pytestmark = pytest.mark.anyio

COUNT = int(os.environ.get("TRIMTAB_FUZZ", "1500"))
SEED = int(os.environ.get("TRIMTAB_FUZZ_SEED", "1"))
AT_ONCE = 24
PATIENCE_S = 0.05  # an incomplete request is waited for by the server: then we leave
HANG_S = 10.0
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})")


async def thrown(url: str, data: bytes) -> bytes:
    """What came back. The server has to let go once we have."""
    reader, writer = await opened(url)
    got = bytearray()
    with contextlib.suppress(OSError):
        writer.write(data)
        with contextlib.suppress(TimeoutError):
            while True:
                async with asyncio.timeout(PATIENCE_S):
                    if not (piece := await reader.read(1 << 16)):
                        break
                    got += piece
        if not reader.at_eof():
            writer.write_eof()
            hung = True
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(HANG_S):
                    while piece := await reader.read(1 << 16):
                        got += piece
                    hung = False
            assert not hung, data[:2_000]
    writer.close()
    return bytes(got)


@pytest.mark.timeout(3600)
async def test_no_bytes_bring_the_server_down() -> None:
    sizes, statuses = 0, set()
    small = '[models."*"]\ncontext_size = 64\nmax_output_tokens = 8\n[server]\nmax_body_mb = 1\n'
    async with ScriptedUpstream(obliging) as upstream, running(upstream.base_url, small) as proxy:
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(data: bytes) -> None:
            nonlocal sizes
            async with gate:
                answer = await thrown(proxy.url, data)
            sizes += len(data)
            found = {int(code) for code in _STATUS.findall(answer.split(b"\r\n\r\n")[0])}
            statuses.update(found)
            assert not any(code >= 500 for code in found), (data[:2_000], answer[:500])

        for _ in range(0, COUNT, 500):
            await asyncio.gather(*map(one, mutated(SEED * 1_000 + _, min(500, COUNT))))
        served = await thrown(proxy.url, request())
        await asyncio.sleep(0.2)
        log = proxy.log.getvalue()
        assert served.startswith(b"HTTP/1.1 200")
        assert proxy.parts.load.requests == 0
        assert proxy.parts.load.bytes == 0
    assert '"level":"error"' not in log
    assert '"event":"bug"' not in log
    assert "fail_open" not in log
    assert {200, 400, 404} <= statuses
    print(f"{COUNT} requests, {sizes} bytes, statuses {sorted(statuses)}")
