"""A real headless Chromium, Debian's, which Playwright drives. Tests that need one are skipped where it is missing."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.async_api import Page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
# Nothing of it calls home, and it runs as root in a container too.
_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


class Watched:
    """A page, and what it should have none of: errors, complaints in the console, requests to anywhere else."""

    def __init__(self, page: Page, origin: str) -> None:
        self.page, self.origin = page, origin
        self.complaints: list[str] = []
        self.bytes: dict[str, int] = {}
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("console", self._console)
        page.on("request", self._request)
        page.on("dialog", self._dialog)

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"console: {message.text}")

    def _request(self, request: Any) -> None:
        if not request.url.startswith((self.origin, "data:")):
            self.complaints.append(f"request: {request.url}")

    async def _dialog(self, dialog: Any) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        await dialog.dismiss()

    async def open(self, place: str, shown: str) -> Page:
        """Go to a place of the page, such as `now`, and wait until the selector `shown` is there."""
        await self.page.goto(f"{self.origin}/ui#{place}")
        await self.page.wait_for_selector(shown)
        return self.page


@contextlib.asynccontextmanager
async def browsing(origin: str, width: int = 1280, height: int = 900, **options: Any) -> AsyncIterator[Watched]:
    """A page of a browser of its own; `options` are those of Playwright's contexts."""
    playwright = pytest.importorskip(
        "playwright.async_api", reason="Playwright is not installed: pip install playwright"
    )
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    async with playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=CHROMIUM, args=_ARGUMENTS)
        try:
            context = await browser.new_context(viewport={"width": width, "height": height}, locale="en-US", **options)
            yield Watched(await context.new_page(), origin)
        finally:
            await browser.close()


def numbers(text: str) -> list[int]:
    """The whole numbers in a text, their separators removed."""
    cleaned = "".join(c if c.isdigit() or c == "," else " " for c in text).replace(",", "")
    return [int(word) for word in cleaned.split()]
