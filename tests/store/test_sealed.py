"""Only the tenant that sealed a value opens it, in its own place, unaltered."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.store.sealed import Keyring

ALICE, BOB = b"Bearer sk-alice", b"Bearer sk-bob"


@given(st.binary(max_size=300), st.text(max_size=20), st.binary(max_size=40))
def test_what_is_sealed_opens(text: bytes, name: str, credential: bytes) -> None:
    ring = Keyring()
    assert ring.tenant(credential).open(name, ring.tenant(credential).seal(name, text)) == text


def test_another_replica_derives_the_same_tenant() -> None:
    here, there = Keyring().tenant(ALICE), Keyring().tenant(ALICE)
    assert here.id == there.id
    assert there.open("n", here.seal("n", b"text")) == b"text"


OTHERS = {
    "another tenant": Keyring().tenant(BOB),
    "no credential": Keyring().tenant(b""),
    "a rotated credential": Keyring().tenant(ALICE + b"-2"),
    "an operator's secret": Keyring("secret").tenant(ALICE),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
def test_nobody_else_opens_it(other: object) -> None:
    sealed = Keyring().tenant(ALICE).seal("n", b"text")
    assert other.open("n", sealed) is None  # type: ignore[attr-defined]
    assert other.id != Keyring().tenant(ALICE).id  # type: ignore[attr-defined]


def test_a_value_moved_to_another_name_does_not_open() -> None:
    alice = Keyring().tenant(ALICE)
    assert alice.open("there", alice.seal("here", b"text")) is None


@given(st.data())
def test_one_altered_bit_closes_it(data: st.DataObject) -> None:
    alice = Keyring().tenant(ALICE)
    sealed = bytearray(alice.seal("n", b"a summary"))
    at, bit = data.draw(st.integers(0, len(sealed) - 1)), data.draw(st.integers(0, 7))
    sealed[at] ^= 1 << bit
    assert alice.open("n", bytes(sealed)) is None


@given(st.binary(max_size=200))
def test_anything_else_is_a_miss_and_never_an_error(value: bytes) -> None:
    assert Keyring().tenant(ALICE).open("n", value) is None


@pytest.mark.parametrize("value", [None, b"", b"\x01", b"\x01" * 28, b'{"summary": "v0"}', b"\x02" * 100])
def test_short_old_and_foreign_values_are_misses(value: bytes | None) -> None:
    assert Keyring().tenant(ALICE).open("n", value) is None


def test_the_anonymous_tenant_is_of_this_process_unless_there_is_a_secret() -> None:
    assert Keyring().tenant(b"").id != Keyring().tenant(b"").id
    assert Keyring("s").tenant(b"").id == Keyring("s").tenant(b"").id
    ring = Keyring()
    assert ring.tenant(b"").open("n", ring.tenant(b"").seal("n", b"text")) == b"text"


def test_equal_texts_are_sealed_differently() -> None:
    alice = Keyring().tenant(ALICE)
    assert alice.seal("n", b"text") != alice.seal("n", b"text")


def test_neither_the_credential_nor_the_secret_shows() -> None:
    ring = Keyring("operator-secret")
    shown = repr(ring) + repr(ring.tenant(ALICE)) + repr(ring.tenant(ALICE).id)
    assert "sk-alice" not in shown
    assert "operator-secret" not in shown
