"""Every kind of event is told somewhere, and none but those."""

from pathlib import Path
from typing import get_args

from trimtab.limits import events

SOURCES = Path(events.__file__).parent


def test_each_kind_is_told_somewhere_in_the_layer() -> None:
    text = "".join(path.read_text() for path in SOURCES.glob("*.py") if path.name != "events.py")
    assert [kind for kind in get_args(events.Kind) if f'"{kind}"' not in text] == []
