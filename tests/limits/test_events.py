"""Every kind of event is reported somewhere, and no others."""

from pathlib import Path
from typing import get_args

from trimtab.limits import events

PACKAGE = Path(events.__file__).parents[1]


def test_each_kind_is_reported_by_limits_or_calibration() -> None:
    sources = [p for room in ("limits", "calibration") for p in (PACKAGE / room).glob("*.py") if p.name != "events.py"]
    text = "".join(path.read_text() for path in sources)
    assert [kind for kind in get_args(events.Kind) if f'"{kind}"' not in text] == []
