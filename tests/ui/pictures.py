"""Takes the pictures of docs/ui.md: the demo's run on the page, at three sizes.

    python -m tests.ui.pictures

Starts `trimtab demo --ui` and waits until its run is over.
"""

from __future__ import annotations

import asyncio
import base64
import re
import signal
from pathlib import Path
from subprocess import PIPE, Popen

from tests.cli.commands import command, environment
from tests.support.browser import browsing

DOCS = Path(__file__).parents[2] / "docs"
SIZES = [(360, 740, 2, "dark"), (1280, 900, 1, "light"), (3840, 2160, 1, "light")]
QUALITY = 55  # per cent: sharp text, small files


async def picture(origin: str, width: int, height: int, scale: int, scheme: str) -> None:
    """One picture, as WebP, which Playwright itself does not write."""
    options = {"device_scale_factor": scale, "color_scheme": scheme}
    async with browsing(origin, width, height, **options) as seen:
        page = await seen.open("conversation", ".messages .listed")
        await page.wait_for_timeout(500)
        session = await page.context.new_cdp_session(page)
        taken = await session.send("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
    (DOCS / f"ui-{width}.webp").write_bytes(base64.b64decode(taken["data"]))


def main() -> None:
    with Popen(command("demo", "--ui"), env=environment(), stdout=PIPE, text=True) as demo:
        assert demo.stdout is not None
        printed = ""
        while "Running until" not in printed:
            printed += demo.stdout.readline()
        (origin,) = re.findall(r"Watch it in a browser: (\S+)/ui", printed)
        for width, height, scale, scheme in SIZES:
            asyncio.run(picture(origin, width, height, scale, scheme))
        demo.send_signal(signal.SIGTERM)


if __name__ == "__main__":
    main()
