"""The model names that may be label values.

A label value is a time series for ever, and clients may type any model name. So only names that were admitted
(configured, listed by an upstream, or accepted by one) become label values, up to a fixed number; all others count as
`other`.
"""

from __future__ import annotations

from collections.abc import Iterable

MAX_NAMES = 64  # about 150 series a model, most of them buckets: a scrape stays under 10,000 series
_LONGEST_NAME = 128  # characters
OTHER = "other"


class Labels:
    """The model names that may be label values."""

    def __init__(self, names: Iterable[str] = (), *, most: int = MAX_NAMES) -> None:
        self._names: set[str] = set()
        self._most = most
        for name in names:
            self.admit(name)

    def admit(self, name: str) -> None:
        """Let `name` be a label value from now on, if there is room and it is short and printable."""
        if name in self._names or len(self._names) >= self._most:
            return
        if 0 < len(name) <= _LONGEST_NAME and name.isprintable():
            self._names.add(name)

    def label(self, name: str) -> str:
        """`name` if it was admitted, else `other`."""
        return name if name in self._names else OTHER
