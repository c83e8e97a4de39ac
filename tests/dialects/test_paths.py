"""Which path speaks which dialect."""

from __future__ import annotations

import pytest

from trimtab.dialects.chat import CHAT
from trimtab.dialects.dialect import Dialect
from trimtab.dialects.paths import DIALECTS, managed, recognized, spoken

EACH = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)


@EACH
def test_only_a_post_of_its_path_is_managed(dialect: Dialect) -> None:
    assert managed("POST", dialect.path) is dialect
    assert managed("GET", dialect.path) is None
    assert managed("POST", f"{dialect.path}/more") is None


@EACH
def test_errors_below_its_path_are_in_its_form(dialect: Dialect) -> None:
    assert spoken(dialect.path) is dialect
    assert spoken(f"{dialect.path}/x_1/cancel") is dialect
    assert spoken(f"{dialect.path}x") is CHAT
    assert spoken("/v1/embeddings") is CHAT


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"input":"hi"}', "responses"),
        (b'{"messages":[]}', "chat"),
        (b'{"messages":[],"input":"x"}', "chat"),
        (b'{"messages":[],"system":"Be brief."}', "messages"),
        (b'{"messages":[{"role":"user","content":[{"type": "tool_result"}]}]}', "messages"),
        (b'{"messages":[],"tools":[{"name":"f","input_schema":{}}]}', "messages"),
        (b'{"messages":[{"role":"user","content":"{\\"type\\": \\"tool_use\\"}"}]}', "chat"),
        (b"[1]", "chat"),
        (b"\xff", "chat"),
    ],
)
def test_a_body_shows_its_dialect(body: bytes, expected: str) -> None:
    assert recognized(body).name == expected
