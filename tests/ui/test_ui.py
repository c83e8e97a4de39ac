"""The small modules of the pages: their settings, and who may read their data."""

from __future__ import annotations

import hashlib

import pytest

from trimtab.errors import ConfigError, Forbidden, TrimtabError, Unauthorized
from trimtab.settings import check_exposure, parse
from trimtab.ui.access import PageAccess

KEY = hashlib.sha256(b"secret").hexdigest()


def served(server: str, ui: str) -> bool:
    settings = parse(f"[server]\n{server}\n[ui]\n{ui}\n", {})
    check_exposure(settings)
    return settings.serves_ui


def test_the_pages_are_on_where_the_server_listens_on_loopback_only() -> None:
    assert served('host = "127.0.0.1"', "")
    assert served('host = "::1"', "")
    assert not served('host = "0.0.0.0"', "")
    assert not served('host = "127.0.0.1"', "enabled = false")


def test_elsewhere_they_need_a_key() -> None:
    with pytest.raises(ConfigError, match=r"Set keys in \[ui\]"):
        served('host = "0.0.0.0"', "enabled = true")
    assert served('host = "0.0.0.0"', f'enabled = true\nkeys = ["{KEY}"]')


def test_a_key_that_is_no_digest_is_refused_with_its_place() -> None:
    with pytest.raises(ConfigError, match=r"\[ui\] keys.*SHA-256"):
        parse('[ui]\nkeys = ["secret"]\n', {})


HERE = {"host": "127.0.0.1:8080"}
BEARER = {"host": "trimtab.example", "authorization": "Bearer secret"}
CASES = [
    ("a program", [], HERE, None),
    ("the page", [], {**HERE, "sec-fetch-site": "same-origin"}, None),
    ("a name of loopback", [], {"host": "localhost"}, None),
    ("IPv6", [], {"host": "[::1]:8080"}, None),
    ("a page of another site", [], {**HERE, "sec-fetch-site": "cross-site"}, Forbidden),
    ("another port of this machine", [], {**HERE, "sec-fetch-site": "same-site"}, Forbidden),
    ("a name that was pointed here", [], {"host": "attacker.example:8080"}, Forbidden),
    ("without a host", [], {}, Forbidden),
    ("another proxy", [], {**HERE, "x-forwarded-for": "203.0.113.7"}, Forbidden),
    ("a key", [KEY], BEARER, None),
    ("a key, through a proxy", [KEY], {**BEARER, "x-forwarded-for": "203.0.113.7"}, None),
    ("a key, from another site", [KEY], {**BEARER, "sec-fetch-site": "cross-site"}, Forbidden),
    ("without the key", [KEY], HERE, Unauthorized),
    ("another key", [KEY], {**HERE, "authorization": "Bearer Secret"}, Unauthorized),
    ("another scheme", [KEY], {**HERE, "authorization": "Basic secret"}, Unauthorized),
    ("the digest itself", [KEY], {**HERE, "authorization": f"Bearer {KEY}"}, Unauthorized),
]


@pytest.mark.parametrize(("keys", "headers", "refused"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_who_may_read(keys: list[str], headers: dict[str, str], refused: type[TrimtabError] | None) -> None:
    access = PageAccess(keys)
    if refused is None:
        return access.check(headers)
    with pytest.raises(refused):
        access.check(headers)
