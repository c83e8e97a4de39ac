"""The one other try after a 413 for bytes."""

from __future__ import annotations

from typing import Any

from tests.exchange.requests import shaping
from trimtab.context.apply.apply import apply
from trimtab.context.read.views import Memo
from trimtab.context.texts import REMOVED
from trimtab.exchange.lighter import lighter
from trimtab.limits import Limit

ROOMY = Limit(context_size=200_000, max_output_tokens=1_024, source="configured")
DATA = "A" * 5_000
HEAVY: dict[str, dict[str, Any]] = {
    "image": {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}},
    "audio": {"type": "input_audio", "input_audio": {"data": DATA, "format": "wav"}},
    "file": {"type": "file", "file": {"filename": "a.pdf", "file_data": DATA}},
    "video": {"type": "video_url", "video_url": {"url": f"data:video/mp4;base64,{DATA}"}},
}
LINK = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
TEXT = {"type": "text", "text": "x" * 5_000, "vendor": 1.0}


def message(*parts: Any, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": list(parts)}


def test_each_kind_of_payload_becomes_a_few_words_and_all_else_stays() -> None:
    for kind, part in HEAVY.items():
        held = shaping([message(TEXT, part, LINK), message(TEXT)], limit=ROOMY)
        found = lighter(held, Memo())
        assert found is not None
        first, last = apply(held.request.messages, found.plan)
        text = {"type": "text", "text": REMOVED[kind]}
        assert bytes(shaping([message(TEXT, text, LINK)]).request.messages[0]) == bytes(first)
        assert bytes(last) == bytes(held.request.messages[1])


def test_half_of_the_bytes_go_the_oldest_first() -> None:
    messages = [message(HEAVY["image"]) for _ in range(11)]
    found = lighter(shaping(messages, limit=ROOMY), Memo())
    assert found is not None
    assert [edit.index for edit in found.plan.edits] == [0, 1, 2, 3, 4, 5]
    assert found.plan.sent < found.plan.original


def test_question_system_and_what_is_light_stay() -> None:
    image = HEAVY["image"]
    assert lighter(shaping([message(image, role="system"), message(image)]), Memo()) is None
    assert lighter(shaping([message(LINK), message(TEXT), message("x")]), Memo()) is None
    assert lighter(shaping([{"role": "user", "content": DATA}, message("x")]), Memo()) is None
    assert lighter(shaping([message(image), message({"type": "text", "text": "y" * 10**6})]), Memo()) is None
