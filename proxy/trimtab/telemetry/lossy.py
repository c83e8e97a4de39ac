"""The stream a log is written to, without its failures: a full disk or a reader that went away costs lines of the log,
and never an answer. What was lost is counted.
"""

from __future__ import annotations

from typing import TextIO


class Lossy:
    """As much of a text stream as a log needs. `lost` counts the writes that failed."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.lost = 0

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except (OSError, ValueError):  # ValueError: the stream was closed
            self.lost += 1
            return 0

    def flush(self) -> None:
        try:
            self._stream.flush()
        except (OSError, ValueError):
            self.lost += 1

    def isatty(self) -> bool:
        return not self._stream.closed and self._stream.isatty()
