"""What `/metrics` answers. One process answers from its own registry. With several workers any of them may be
asked, so each keeps its numbers in files of a shared directory and the one that is asked adds them all up.

The directory has to be named in the environment before prometheus_client is first imported: the command that
starts the workers calls `share_directory`, empty at each start, and the parent `forget` for each that ended.
"""

from __future__ import annotations

import os
from pathlib import Path

from prometheus_client import CollectorRegistry, exposition
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"


def share_directory(directory: Path) -> dict[str, str]:
    """Empty `directory` (made if missing) and return the environment the workers have to start with."""
    directory.mkdir(parents=True, exist_ok=True)
    for left_over in directory.glob("*.db"):
        left_over.unlink()
    return {_VARIABLE: str(directory)}


def forget(pid: int) -> None:
    """Take the gauges of a worker that ended out of the sums; its counters stay."""
    mark_process_dead(pid)  # type: ignore[no-untyped-call]  # the library has no types here


def render(registry: CollectorRegistry, accept: str = "") -> tuple[bytes, str]:
    """Body and content type of `/metrics`: OpenMetrics when the `Accept` header asks for it, else text."""
    if os.environ.get(_VARIABLE):
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    encode, content_type = exposition.choose_encoder(accept)
    return encode(registry), content_type
