"""Which archive the table asks for, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimtab.conversations.settings import ConversationsSettings, open_archive
from trimtab.errors import ConfigError

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("store", "words"),
    [
        ("redis", r"needs the table \[redis\]"),
        ("postgres://host/db", "'postgres' is not known"),
        ("sqlite:///", "is not known"),
        ("sqlite:////proc/c.db", "cannot open /proc/c.db"),
    ],
)
def test_what_cannot_be_used_is_named(store: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        open_archive(ConversationsSettings(store=store), None)


async def test_the_embedded_archive_lies_in_the_home_of_its_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    archive = open_archive(ConversationsSettings(), None)
    assert (tmp_path / ".local/share/trimtab/conversations.db").exists()
    await archive.aclose()


def test_a_secret_is_not_shown() -> None:
    assert "sesame" not in repr(ConversationsSettings(secret="sesame"))
