"""What parts that are not text cost: by size and kind, never by their base64, never nothing."""

from __future__ import annotations

import base64
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.images import png
from trimtab.context.estimate.documents import MAX_PART_TOKENS
from trimtab.context.estimate.parts import (
    IMAGE_BASE,
    UNKNOWN_AUDIO,
    UNKNOWN_FILE,
    UNKNOWN_IMAGE,
    UNKNOWN_VIDEO,
    image_tokens,
    part_tokens,
)
from trimtab.context.estimate.tokens import text_tokens

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
TYPES = ["text", "image_url", "image", "input_image", "input_audio", "audio_url", "file", "input_file", "document"]
TYPES += ["video_url", "input_video", "thinking", "x"]
FIELDS = ["image_url", "source", "input_audio", "file", "video_url", "url", "data", "file_data", "detail", "file_id"]


def data_url(media: str, data: bytes) -> str:
    return f"data:{media};base64,{base64.b64encode(data).decode()}"


def image(url: object, **fields: object) -> dict[str, object]:
    return {"type": "image_url", "image_url": {"url": url, **fields}}


@pytest.mark.parametrize(
    ("width", "height", "tokens"),
    [
        (1024, 1024, 765),  # the two examples of OpenAI's guide
        (2048, 4096, 1105),
        (512, 512, 255),
        (513, 512, 425),
        (1, 1, 255),
        (768, 768, 765),
        (100_000, 1, 765),
        (4000, 3000, 765),
        (20_000, 8_000, 1445),
    ],
)
def test_an_image_costs_by_its_tiles(width: int, height: int, tokens: int) -> None:
    assert image_tokens((width, height), "high") == tokens
    assert part_tokens(image(data_url("image/png", png(width, height)), detail="high")) == tokens
    assert part_tokens(image(data_url("image/png", png(width, height)))) == tokens
    assert part_tokens(image(data_url("image/png", png(width, height)), detail="low")) == IMAGE_BASE


HUGE = base64.b64encode(png(1024, 1024) + bytes(1_000_000)).decode()
IMAGES = [
    ("a link", image("https://example.invalid/a.png"), UNKNOWN_IMAGE),
    ("a link in low detail", image("https://example.invalid/a.png", detail="low"), IMAGE_BASE),
    ("a megabyte inline", image(f"data:image/png;base64,{HUGE}"), 765),
    ("an unknown format", image(data_url("image/x", b"x" * 900_000)), UNKNOWN_IMAGE),
    ("a drawing written out", image("data:image/svg+xml,%3Csvg%2F%3E"), UNKNOWN_IMAGE),
    ("no comma", image("data:image/png;base64"), UNKNOWN_IMAGE),
    ("no URL", {"type": "image_url"}, UNKNOWN_IMAGE),
    ("a wrong URL", image(7), UNKNOWN_IMAGE),
    ("a bare string", {"type": "image_url", "image_url": data_url("image/png", png(512, 512))}, 255),
    ("as in responses", {"type": "input_image", "image_url": "https://example.invalid", "detail": "low"}, IMAGE_BASE),
    ("as in messages", {"type": "image", "source": {"type": "base64", "data": HUGE}}, 765),
]


@pytest.mark.parametrize(("part", "tokens"), [row[1:] for row in IMAGES], ids=[row[0] for row in IMAGES])
def test_an_image_costs_the_same_however_it_is_given(part: dict[str, object], tokens: int) -> None:
    assert part_tokens(part) == tokens


WAVE = b"RIFF" + bytes(4) + b"WAVEfmt " + struct.pack("<IHHII", 16, 1, 1, 24_000, 48_000) + bytes(480_000)


def audio(data: str, kind: str) -> dict[str, object]:
    return {"type": "input_audio", "input_audio": {"data": data, "format": kind}}


def film(url: str) -> dict[str, object]:
    return {"type": "video_url", "video_url": {"url": url}}


MEDIA = [
    ("ten seconds of WAV", audio(base64.b64encode(WAVE).decode(), "wav"), 100, 102),
    ("half a megabyte of base64", audio("A" * 500_000, "mp3"), 100, 1_000),
    ("audio by reference", {"type": "input_audio", "input_audio": {"id": "a"}}, UNKNOWN_AUDIO, UNKNOWN_AUDIO),
    ("a file by id", {"type": "file", "file": {"file_id": "file-1"}}, UNKNOWN_FILE, UNKNOWN_FILE),
    (
        "a PDF inline",
        {"type": "file", "file": {"filename": "a.pdf", "file_data": data_url("application/pdf", bytes(225_000))}},
        1_500,
        10_000,
    ),
    ("a film by link", film("https://example.invalid"), UNKNOWN_VIDEO, UNKNOWN_VIDEO),
    ("a short film inline", film("data:video/mp4;base64,AAAA"), 1, 10),
    ("a long film inline", film("data:video/mp4;base64," + "A" * 10**8), MAX_PART_TOKENS, MAX_PART_TOKENS),
    ("a payload of a kind unknown", {"type": "model3d", "mesh": {"data": "A" * 1_000_000}}, 100, MAX_PART_TOKENS),
]  # fmt: skip


@pytest.mark.parametrize(("part", "least", "most"), [row[1:] for row in MEDIA], ids=[row[0] for row in MEDIA])
def test_a_payload_costs_by_its_size_within_bounds(part: dict[str, object], least: int, most: int) -> None:
    assert least <= part_tokens(part) <= most


def test_text_in_an_unknown_part_counts_as_text() -> None:
    thought = "First the tests, then the fix. " * 100
    size = part_tokens({"type": "thinking", "thinking": thought})
    assert text_tokens(thought) < size < text_tokens(thought) + 10


def test_chinese_without_blanks_is_text_not_a_payload() -> None:
    text = "我们在星期三讨论了新的计划" * 100
    assert part_tokens({"type": "x", "x": text}) > text_tokens(text)


def test_a_part_nested_deeper_than_the_stack_has_a_cost() -> None:
    part: object = "a"
    for _ in range(100_000):
        part = [part]
    assert part_tokens(part) >= 1


@given(JSON)
def test_any_value_has_a_cost(part: object) -> None:
    assert part_tokens(part) >= 1


@given(
    st.sampled_from(TYPES),
    st.dictionaries(st.sampled_from(FIELDS), JSON | st.dictionaries(st.sampled_from(FIELDS), JSON)),
)
def test_any_part_of_a_known_type_has_a_cost(kind: str, fields: dict[str, object]) -> None:
    assert part_tokens({"type": kind, **fields}) >= 1
