"""Which names may become label values. A label is a time series for ever, and a model name is whatever a
client typed: so only names that were admitted (configured, listed by an upstream, or answered by one) stand
for themselves, up to a fixed number, and all others count as `other`.
"""

from __future__ import annotations

from collections.abc import Iterable

OTHER = "other"

# At some 150 series a model (most of them histogram buckets) this keeps a scrape under 10,000 series.
MAX_NAMES = 64


class Labels:
    """A bounded set of admitted names."""

    def __init__(self, names: Iterable[str] = (), *, most: int = MAX_NAMES) -> None:
        self._names: set[str] = set()
        self._most = most
        for name in names:
            self.admit(name)

    def admit(self, name: str) -> bool:
        """Let `name` stand for itself from now on. False when there is no room left or it is no name."""
        if name in self._names:
            return True
        if not name or len(name) > 128 or not name.isprintable() or len(self._names) >= self._most:
            return False
        self._names.add(name)
        return True

    def label(self, name: str) -> str:
        """`name` if it was admitted, else `other`."""
        return name if name in self._names else OTHER
