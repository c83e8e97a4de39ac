"""A file as a client uploads it, in a form (multipart/form-data, RFC 7578): its purpose, and what is in it.

The purpose decides who keeps a file, and it may stand before or after the file. So it is looked for while the form
arrives, and what is for the upstream need not fit into memory. Pure: forms come in, values go out.
"""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Iterator
from typing import Final

import msgspec
from multipart import MultipartError, MultipartSegment, PushMultipartParser, parse_options_header

from trimtab.errors import InvalidRequest

KEPT: Final = frozenset({"user_data", "vision"})
"""Purposes of files that are kept here: input of requests. All others are for work that only the upstream can do:
`assistants` (its search and its code interpreter), `batch`, `fine-tune`, `evals`."""

UNKNOWN_TYPE: Final = "application/octet-stream"
_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+", re.ASCII)
_FORM: Final = "multipart/form-data"
_MOST_PARTS = 32  # of one form: OpenAI's has four
_MOST_CHARS = 200  # of a field that is no file
_LASTS_S = range(3_600, 2_592_001)  # seconds, as OpenAI's: an hour to 30 days


class Upload(msgspec.Struct, frozen=True):
    """A file to be kept. `lasts_s`: seconds after which it is deleted, if the client said so."""

    name: str
    media_type: str
    purpose: str
    data: bytes
    lasts_s: int | None = None


def boundary_of(content_type: str) -> str:
    """The boundary between the parts of a form; "" where it is no form, or has none."""
    kind, options = parse_options_header(content_type)
    boundary = str(options.get("boundary", "")) if kind.lower() == _FORM else ""
    return boundary if boundary.isprintable() else ""


class PurposeReader:
    """Reads a form as it arrives, up to its purpose, which is "" until then. Never raises: a form that is broken has
    none."""

    def __init__(self, boundary: str) -> None:
        self._parts = _Parts(boundary)
        self.purpose = ""

    def feed(self, chunk: bytes) -> bool:
        """Read a piece. True once no more is needed."""
        try:
            for name, value in self._parts.feed(chunk, keeps_files=False):
                if name == "purpose":
                    self.purpose = value.decode("utf-8", "replace")
                    return True
        except MultipartError:
            return True
        return self._parts.ended


def upload_of(raw: bytes, boundary: str) -> Upload:
    """The file in a whole form. Raises InvalidRequest."""
    parts = _Parts(boundary)
    try:
        fields: dict[str, bytes] = {}
        for name, value in parts.feed(raw):
            fields.setdefault(name, value)
        parts.close()
    except MultipartError as error:
        raise InvalidRequest("The form of this upload is broken or incomplete (multipart/form-data).") from error
    if "file" not in fields or parts.file is None:
        raise InvalidRequest("The upload has no file. Send it as the part `file`, with a filename.", param="file")
    filename = parts.file.filename or "file"
    purpose = fields.get("purpose", b"").decode("utf-8", "replace")
    return Upload(filename, _type_of(parts.file, filename), purpose, fields["file"], _lasts_s(fields))


class _Parts:
    """The parts of a form, each as a name and its bytes. `file` is the part that is named so."""

    def __init__(self, boundary: str) -> None:
        self._parser = PushMultipartParser(boundary, max_segment_count=_MOST_PARTS)
        self._open: MultipartSegment | None = None
        self._data: list[bytes] = []
        self._size = 0
        self.file: MultipartSegment | None = None

    @property
    def ended(self) -> bool:
        return bool(self._parser.closed)

    def close(self) -> None:
        """Raises MultipartError for a form that has not ended."""
        self._parser.close()

    def feed(self, chunk: bytes, *, keeps_files: bool = True) -> Iterator[tuple[str, bytes]]:
        """The parts that end in this piece. Raises MultipartError."""
        for event in self._parser.parse(chunk):
            if isinstance(event, MultipartSegment):
                self._open, self._data, self._size = event, [], 0
            elif event is not None:
                self._size += len(event)
                if keeps_files if self._is_file else self._size <= _MOST_CHARS:
                    self._data.append(bytes(event))
            elif self._open is not None:
                if self._is_file and self._open.name == "file":
                    self.file = self.file or self._open
                yield self._open.name, b"".join(self._data)

    @property
    def _is_file(self) -> bool:
        return self._open is not None and self._open.filename is not None


def _type_of(part: MultipartSegment, name: str) -> str:
    """The media type: the client's, or else what the name says."""
    stated = parse_options_header(part.content_type or "")[0].lower()
    if stated in ("", UNKNOWN_TYPE):
        stated = mimetypes.guess_type(name)[0] or UNKNOWN_TYPE
    return stated if _TYPE.fullmatch(stated) else UNKNOWN_TYPE


def _lasts_s(fields: dict[str, bytes]) -> int | None:
    anchor, seconds = fields.get("expires_after[anchor]"), fields.get("expires_after[seconds]")
    if anchor is None and seconds is None:
        return None
    if anchor != b"created_at" or seconds is None or not seconds.isdigit() or int(seconds) not in _LASTS_S:
        raise InvalidRequest(
            "Invalid expires_after. Use the anchor created_at, and seconds from 3600 to 2592000.",
            param="expires_after",
        )
    return int(seconds)
