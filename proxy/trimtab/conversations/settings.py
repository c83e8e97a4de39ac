"""The table `[conversations]`, and the archive it asks for. Left out, no text of a conversation is stored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from trimtab.conversations.archive import Archive
from trimtab.errors import ConfigError
from trimtab.store.settings import RedisSettings
from trimtab.units import Count, PositiveSeconds

MONTH_S: Final = 30 * 24 * 3600.0  # as long as OpenAI keeps a response
EMBEDDED: Final = "sqlite:///~/.local/share/trimtab/conversations.db"
_FILE: Final = "sqlite:///"


class ConversationsSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where conversations are stored, for how long, and how large one may be. See docs/conversations.md."""

    store: str = EMBEDDED  # "redis": the server of [redis]; or sqlite:///PATH (sqlite:////PATH for one from the root)
    store_by_default: bool = True  # what a Responses request without `store` asks for; OpenAI's own default
    ttl_s: PositiveSeconds = MONTH_S  # a conversation not used for this long is deleted
    max_messages: Count = 20_000  # messages or items of one conversation; one that has more takes no further turn
    max_mb: Count = 32  # MiB of one conversation, images and files included
    media_kb: Count = 16  # KiB; an image or file in a data URL larger than this is stored once, by its digest
    max_file_mb: Count = 32  # MiB of one uploaded file
    max_files_mb: Count = 256  # MiB of all uploaded files of one tenant
    memory_mb: Count = 64  # MiB of histories that this process remembers as read, so that it reads only what is new
    secret: str = ""  # mixed into the key that seals what is stored, beside each tenant's credential

    def __repr__(self) -> str:
        return f"ConversationsSettings(store={self.store!r}, ttl_s={self.ttl_s})"


def open_archive(
    settings: ConversationsSettings,
    redis: RedisSettings | None,
    on_error: Callable[[str], None] = lambda cause: None,
) -> Archive:
    """The archive to use; nothing is connected yet. `on_error` gets one word for each failed call of Redis. Raises
    ConfigError for an address that cannot be used, and where the file cannot be opened."""
    if settings.store == "redis":
        if redis is None:
            raise _refused('"redis" needs the table [redis]: add it with its url, or use a file, sqlite:///PATH')
        from trimtab.conversations.redis import RedisArchive

        return RedisArchive(redis, on_error)
    path = settings.store.removeprefix(_FILE)
    if not settings.store.startswith(_FILE) or not path:
        raise _refused(f'{settings.store.partition("://")[0]!r} is not known: use "redis" or sqlite:///PATH')
    from trimtab.conversations.sqlite import SqliteArchive

    file = Path(path).expanduser()
    try:
        return SqliteArchive(file)
    except OSError as error:
        raise _refused(f"cannot open {file}: {(error.strerror or str(error)).lower()}. Name a file in a directory "
                       "that can be written to") from error  # fmt: skip


def _refused(problem: str) -> ConfigError:
    return ConfigError(f"[conversations] store: {problem}.", param="conversations.store")
