"""The samples in tests/data as values: catalogue lines with their bodies as bytes, wordings as sentences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parents[1] / "data"


def _lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]


def as_bytes(body: Any) -> bytes:
    return body.encode() if isinstance(body, str) else json.dumps(body, ensure_ascii=False).encode()


CATALOGUE = _lines("overflow_catalogue.jsonl")
WORDINGS = _lines("overflow_wordings.jsonl")
OVERFLOWS = [(line["text"], line["limit"], line["actual"]) for line in WORDINGS if line["is_overflow"]]
LOOKALIKES = [line["text"] for line in WORDINGS if not line["is_overflow"]]
