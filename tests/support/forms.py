"""Forms as clients upload files in them."""

from __future__ import annotations

import httpx

from trimtab.conversations.uploads import boundary_of


def form(data: dict[str, str] | None = None, **files: tuple[str | None, bytes, str]) -> tuple[bytes, str]:
    """A form as httpx writes it, fields first, and its boundary."""
    request = httpx.Request("POST", "http://x/", data=data or {}, files=files)
    return request.read(), boundary_of(request.headers["content-type"])
