"""How many tokens a content part has that is not text: an image, audio, a file, video, or a type not known yet.

A payload counts by its kind and size, at least 1 token and at most `MAX_PART_TOKENS`; its base64 is never counted as
text. A document of text counts as its text, and so does text inside a part of unknown type. Any JSON value has a size;
nothing raises.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import ceil
from typing import Any, Final

from trimtab.context.estimate.documents import bounded, document_tokens, size_of
from trimtab.context.estimate.images import Size, image_size, window
from trimtab.context.estimate.tokens import text_tokens

IMAGE_BASE: Final = 85
IMAGE_TILE: Final = 170
"""Tokens of any image, and of each 512-pixel tile in high detail: OpenAI's guide on images and vision."""

UNKNOWN_IMAGE: Final = 765
"""Tokens of an image whose size is not known: 1,024 by 1,024 in high detail, four tiles."""

AUDIO_TOKENS_PER_SECOND: Final = 10
"""One token per 100 ms of a user's audio: OpenAI's guide on managing costs of audio."""

UNKNOWN_AUDIO: Final = 300
"""Tokens of audio given by reference: half a minute."""

UNKNOWN_FILE: Final = 2_000
"""Tokens of a file given by its id or URL: one such page."""

VIDEO_BYTES_PER_TOKEN: Final = 400
"""Google's guide on video says about 300 tokens a second. 1 Mbit/s, 125,000 bytes a second, is an assumption."""

UNKNOWN_VIDEO: Final = 3_000
"""Tokens of a video given by its URL: ten seconds."""

_LONG_SIDE, _SHORT_SIDE, _TILE = 2048, 768, 512  # pixels; the same guide on images
_DEFAULT_BYTES_PER_SECOND = 8_000  # MP3 and the like at 64 kbit/s
_MAX_VALUES = 10_000  # values of an unknown part that are looked at one by one
_BASE64 = re.compile(r"[\w+/=-]{64}[\w+/=\r\n-]{448}", re.ASCII)


def part_tokens(part: object) -> int:
    """Estimated tokens of one content part, a decoded JSON value of any shape: at least 1. Never raises."""
    if isinstance(part, dict) and isinstance(kind := part.get("type"), str) and kind in _BY_TYPE:
        return _BY_TYPE[kind](part)
    return max(1, _unknown(part))


def image_tokens(size: Size, detail: object = "auto") -> int:
    """Tokens of an image of `size` pixels. `detail` is "low"; anything else counts as "high", which is the most that
    "auto" can be. Source: OpenAI's guide on images and vision, the tile rule of GPT-4o."""
    if detail == "low":
        return IMAGE_BASE
    long, short = max(size), min(size)
    scale = min(1.0, _LONG_SIDE / long)
    scale = min(scale, _SHORT_SIDE / short)
    # Rounded, so that 512.0000001 pixels are one tile and not two.
    tiles = [max(1, ceil(round(side * scale, 3) / _TILE)) for side in size]
    return IMAGE_BASE + IMAGE_TILE * tiles[0] * tiles[1]


def _image(part: dict[str, Any]) -> int:
    """`image_url` with an object (chat) or a string (responses), or `image` with a `source` (messages)."""
    inner = part.get("image_url", part.get("source"))
    holder = inner if isinstance(inner, dict) else part
    detail = holder.get("detail", part.get("detail"))
    if detail == "low":
        return IMAGE_BASE
    payload = _payload(inner if isinstance(inner, str) else holder.get("url", holder.get("data")))
    size = image_size(payload[1]) if payload else None
    return image_tokens(size, detail) if size else UNKNOWN_IMAGE


def _audio(part: dict[str, Any]) -> int:
    inner = _inner(part, "input_audio", "audio", "audio_url")
    payload = _payload(inner.get("data", inner.get("url")))
    if not payload:
        return UNKNOWN_AUDIO
    head = window(payload[1], 0, 32)
    # In RIFF WAVE, bytes 28 to 31 are the bytes per second.
    rate = int.from_bytes(head[28:32], "little") if head[8:16] == b"WAVEfmt " else 0
    seconds = size_of(payload[1]) / (rate or _DEFAULT_BYTES_PER_SECOND)
    return bounded(seconds * AUDIO_TOKENS_PER_SECOND)


def _file(part: dict[str, Any]) -> int:
    inner = _inner(part, "file", "source", "document")
    for name in ("content", "text"):  # Anthropic's document of blocks, and texts of other wrappers
        if isinstance(content := inner.get(name), str | list):
            return max(1, _unknown(content))
    payload = _payload(inner.get("file_data", inner.get("data", inner.get("url"))))
    return document_tokens(payload[1]) if payload else UNKNOWN_FILE


def _video(part: dict[str, Any]) -> int:
    inner = _inner(part, "video_url", "input_video", "video")
    payload = _payload(inner.get("url", inner.get("data")))
    return bounded(size_of(payload[1]) / VIDEO_BYTES_PER_TOKEN) if payload else UNKNOWN_VIDEO


def _unknown(part: object) -> int:
    """Count keys and strings as text, payloads by size. Walks with a list, because JSON may be nested deeper than
    Python's stack."""
    total, waiting = 0, [part]
    for _ in range(_MAX_VALUES):
        if not waiting:
            break
        value = waiting.pop()
        if isinstance(value, str):
            total += _string(value)
        elif isinstance(value, dict):
            waiting += [*value.keys(), *value.values()]
        elif isinstance(value, list):
            waiting += value
        else:
            total += 1
    return total + len(waiting)


def _string(value: str) -> int:
    if value.startswith("data:") and (payload := _payload(value)):
        return document_tokens(payload[1])
    return document_tokens(value) if _BASE64.match(value) else text_tokens(value)


def _inner(part: dict[str, Any], *names: str) -> dict[str, Any]:
    """The object in the first of these fields; a bare string there is its URL; without one, the part itself."""
    for name in names:
        if isinstance(part.get(name), dict):
            return dict(part[name])
        if isinstance(part.get(name), str):
            return {"url": part[name]}
    return part


def _payload(value: object) -> tuple[str, str] | None:
    """Media type and base64 of a `data:` URL (RFC 2397) or of bare base64; None for a link or an empty value."""
    if not isinstance(value, str) or not value or value[:8].lower().startswith(("http:", "https:")):
        return None
    if value[:5].lower() != "data:":
        return "", value
    media, comma, encoded = value[5:].partition(",")
    return (media.partition(";")[0].lower(), encoded) if comma else None


_BY_TYPE: Final[dict[str, Callable[[dict[str, Any]], int]]] = {
    "image_url": _image,
    "input_image": _image,
    "image": _image,
    "input_audio": _audio,
    "audio": _audio,
    "audio_url": _audio,
    "file": _file,
    "input_file": _file,
    "document": _file,
    "video_url": _video,
    "input_video": _video,
    "video": _video,
}
