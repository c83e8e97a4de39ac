"""Forms in which files are uploaded: what is read of them, in one piece and in many, and what is refused."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.forms import form
from trimtab.conversations.uploads import PurposeReader, Upload, boundary_of, upload_of
from trimtab.errors import InvalidRequest

PDF = b"%PDF-1.7 \r\n--not-the-boundary\r\n\x00\xff"
FILE = ("report.pdf", PDF, "application/pdf")


def test_a_file_is_read_as_it_was_sent() -> None:
    raw, boundary = form({"purpose": "user_data"}, file=FILE)
    assert upload_of(raw, boundary) == Upload("report.pdf", "application/pdf", "user_data", PDF)


def test_its_end_is_read() -> None:
    fields = {"purpose": "vision", "expires_after[anchor]": "created_at", "expires_after[seconds]": "3600"}
    raw, boundary = form(fields, file=FILE)
    assert upload_of(raw, boundary).lasts_s == 3_600


@pytest.mark.parametrize(
    ("name", "stated", "found"),
    [
        ("a.png", "application/octet-stream", "image/png"),
        ("a.png", "image/webp", "image/webp"),
        ("noend", "application/octet-stream", "application/octet-stream"),
        ("a.txt", "text/plain; charset=utf-8", "text/plain"),
        ("a.txt", 'text/plain"evil', "application/octet-stream"),
    ],
)
def test_the_media_type_is_the_clients_or_what_the_name_says(name: str, stated: str, found: str) -> None:
    raw, boundary = form({"purpose": "user_data"}, file=(name, b"x", stated))
    assert upload_of(raw, boundary).media_type == found


def test_a_name_in_other_letters_and_an_empty_file_are_read() -> None:
    raw, boundary = form({"purpose": "user_data"}, file=("Straße 1.txt", b"", "text/plain"))
    found = upload_of(raw, boundary)
    assert (found.name, found.data) == ("Straße 1.txt", b"")


BROKEN = [
    ("no file", form({"purpose": "user_data", "file": "a text"})[0]),
    ("cut short", form({"purpose": "user_data"}, file=FILE)[0][:-30]),
    ("empty", b""),
    ("no form", b'{"purpose": "user_data"}'),
    ("a hundred parts", form({f"field{n}": "x" for n in range(100)})[0]),
]


@pytest.mark.parametrize("raw", [each[1] for each in BROKEN], ids=[each[0] for each in BROKEN])
def test_what_is_no_form_with_a_file_is_refused(raw: bytes) -> None:
    boundary = raw[2:34].decode("latin-1") if raw.startswith(b"--") else "b"
    with pytest.raises(InvalidRequest):
        upload_of(raw, boundary)


@pytest.mark.parametrize(
    "fields",
    [
        {"expires_after[anchor]": "last_active_at", "expires_after[seconds]": "3600"},
        {"expires_after[anchor]": "created_at", "expires_after[seconds]": "60"},
        {"expires_after[anchor]": "created_at", "expires_after[seconds]": "1e9"},
        {"expires_after[anchor]": "created_at"},
        {"expires_after[seconds]": "3600"},
    ],
)
def test_an_end_that_is_not_one_of_openais_is_refused(fields: dict[str, str]) -> None:
    raw, boundary = form(fields, file=FILE)
    with pytest.raises(InvalidRequest, match="expires_after"):
        upload_of(raw, boundary)


@pytest.mark.parametrize("size", [1, 7, 1_000_000])
def test_the_purpose_is_found_as_soon_as_it_has_come(size: int) -> None:
    raw, boundary = form({"purpose": "batch"}, file=FILE)
    reader, read = PurposeReader(boundary), 0
    for start in range(0, len(raw), size):
        read = start + size
        if reader.feed(raw[start:read]):
            break
    assert reader.purpose == "batch"
    assert size > len(raw) or read < raw.index(b"report.pdf")


def test_the_purpose_is_found_behind_the_file() -> None:
    reader, boundary = PurposeReader("b"), b"--b\r\nContent-Disposition: form-data; "
    assert not reader.feed(boundary + b'name="file"; filename="a"\r\n\r\n')
    assert not reader.feed(b"x" * 100_000)
    assert reader.feed(b"\r\n" + boundary + b'name="purpose"\r\n\r\nvision\r\n--b--\r\n')
    assert reader.purpose == "vision"


@pytest.mark.parametrize("raw", [b"no form at all, and long enough for it", b"--b\r\nno header\r\n\r\n", b"--b--\r\n"])
def test_a_broken_form_has_no_purpose(raw: bytes) -> None:
    reader = PurposeReader("b")
    reader.feed(raw)
    assert reader.purpose == ""


PIECES = (b"\r\n", b"--", b'"', b"; ", b"\xff", b"\x00", b"\n", b":", b"filename*=x'y'z", b"Content-Length: -5\r\n")


@given(st.data())
def test_any_bytes_are_a_file_or_an_error_of_ours(data: st.DataObject) -> None:
    raw, boundary = form({"purpose": "user_data"}, file=("ü.txt", b"hello", "text/plain"))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw)))
        raw = raw[:at] + data.draw(st.sampled_from(PIECES)) + raw[at + data.draw(st.integers(0, 40)) :]
    with suppress(InvalidRequest):
        msgspec.json.encode(upload_of(raw, boundary).name)
    reader, size = PurposeReader(boundary), data.draw(st.integers(1, 60))
    for start in range(0, len(raw), size):
        if reader.feed(raw[start : start + size]):
            break


@pytest.mark.parametrize(
    ("content_type", "found"),
    [
        ("multipart/form-data; boundary=abc", "abc"),
        ('Multipart/Form-Data; Boundary="a b"', "a b"),
        ("multipart/form-data", ""),
        ('multipart/form-data; boundary="a\nb"', ""),
        ("multipart/mixed; boundary=abc", ""),
        ("application/json", ""),
        ("", ""),
    ],
)
def test_only_a_form_has_a_boundary(content_type: str, found: str) -> None:
    assert boundary_of(content_type) == found
