"""The cases by id, with `<<…>>` filled in; `tests/data/bug_cases_README.md` says what they are."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.support.conversations import prose

_DATA = Path(__file__).resolve().parents[1] / "data"
_LINES = [line for name in ("bug_cases", "reports_2") for line in (_DATA / f"{name}.jsonl").read_text().splitlines()]
ALL: dict[str, dict[str, Any]] = {c["id"]: c for c in map(json.loads, _LINES)}

CHINESE = "代理把长对话保持在模型的上下文窗口之内，不丢失重要的内容。"


def tool(n: int, tokens: int) -> dict[str, Any]:
    """A tool whose schema is about `tokens` tokens."""
    properties = {f"argument_{i}": {"type": "string", "description": prose(20, i)} for i in range(tokens // 30)}
    function = {"name": f"tool_{n}", "description": "", "parameters": {"type": "object", "properties": properties}}
    return {"type": "function", "function": function}


_FILLED: dict[str, Any] = {
    "<<100000 x {user,'a'}>>": [{"role": "user", "content": "a"}] * 100_000,
    "<<12000 tokens>>": prose(12_000),
    "<<128 tools>>": [tool(n, 150) for n in range(128)],
    "<<180k tokens transcript>>": prose(180_000),
    "<<20 kB schema>>": {"type": "object", "properties": {f"p{i}": {"description": prose(20)} for i in range(160)}},
    "<<221k estimated>>": [{"role": "user", "content": prose(221_000)}],
    "<<40 tools, 29k tokens>>": [tool(n, 720) for n in range(40)],
    "<<50 functions with 400-token schemas>>": [tool(n, 400) for n in range(50)],
    "<<60k chars>>": prose(13_000),
    "<<700k tokens>>": [{"role": "user", "content": prose(700_000)}],
    "<<90 % of limit>>": prose(29_000),
    "<<90k tokens>>": prose(90_000),
    "<<Chinese prose 40000 chars>>": (CHINESE * 2_000)[:40_000],
    "<<estimate 144k>>": [{"role": "user", "content": prose(144_000)}],
    "<<long>>": prose(3_000),
}


def case(id: str) -> Any:
    """The `repro` of a case."""
    return _filled(ALL[id]["repro"])


def request(id: str) -> dict[str, Any]:
    """The request of a case, as a client would send it."""
    asked = case(id)["request"]
    messages = [{"role": "user", "content": m} if isinstance(m, str) else m for m in asked.get("messages", [])]
    return {"model": "m", **asked, "messages": messages}


def _filled(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _filled(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item) for item in value]
    if not isinstance(value, str) or "<<" not in value:
        return value
    return _FILLED[value] if value in _FILLED else re.sub(r"<<(REPEAT x|BASE64) (\d+)>>", _repeated, value)


def _repeated(match: re.Match[str]) -> str:
    return ("A" if match.group(1) == "BASE64" else "x") * int(match.group(2))
