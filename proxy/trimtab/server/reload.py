"""SIGHUP: read the configuration again while requests go on.

Keys, upstreams, models, shaping and profiles hold for requests that arrive from then on; a request under way keeps what
it began with, so no stream is dropped. The other tables belong to parts that live as long as the process: a change in
them is named in the log and waits for a restart. A file with an error changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from trimtab.errors import ConfigError
from trimtab.server.parts import Parts
from trimtab.server.startup import check_startable
from trimtab.settings import Settings

_FIXED = ("server", "limits", "compaction", "redis", "conversations", "telemetry", "ui")  # tables of parts made once


class Reloader:
    """Reads the configuration with `read` and gives it to `parts`, one reload at a time. `read` raises ConfigError."""

    def __init__(self, parts: Parts, read: Callable[[], Settings]) -> None:
        self._parts, self._read = parts, read
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self) -> None:
        """Reload in a task of its own, as a signal handler must."""
        task = asyncio.create_task(self._reload())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _reload(self) -> None:
        log = self._parts.telemetry.log
        async with self._turn:
            try:
                settings, waiting = await asyncio.to_thread(self._checked)
            except ConfigError as error:
                return log.event("reload_refused", "error", reason=error.message)
            self._parts.adopt(settings)
        if waiting:
            log.event("reloaded", needs_restart=waiting)
        else:
            log.event("reloaded")

    def _checked(self) -> tuple[Settings, list[str]]:
        """The settings that can hold from now on, and the names of the tables whose change waits for a restart."""
        old, new = self._parts.settings, self._read()
        server = msgspec.structs.replace(old.server, client_keys=new.server.client_keys)
        kept = {name: getattr(old, name) for name in _FIXED} | {"server": server}
        settings = msgspec.structs.replace(new, **kept)
        check_startable(settings)
        return settings, [name for name in _FIXED if getattr(settings, name) != getattr(new, name)]
