"""The bundled table: found by name, whole names only, small at rest."""

import pytest

from trimtab.limits.refresh import write
from trimtab.limits.settings import Prices
from trimtab.limits.table import Entry, Found, Table

BUNDLED = Table.load()
SMALL = Table(
    write(
        {"source": "here", "licence": "MIT", "date": "2026-01-01"},
        [
            Entry("alpha/acme-1", 8_000),
            Entry("beta/acme-1", 16_000),
            Entry("gamma/acme-1", 16_000),
            Entry("alpha/acme-2", 8_000),
            Entry("xai/acme-2", 32_000),
            Entry("acme-3-2025-01-02", 4_000),
            Entry("us.anthropic.acme-4-v1:0", 5_000),
            Entry('quo"ted/Größe', 6_000),
        ],
    )
)

FOUND = [
    ("gpt-4o", "gpt-4o", ""),
    ("openai/gpt-4o-2024-08-06", "gpt-4o-2024-08-06", "prefix"),
    ("gpt-4o-2099-01-01", "gpt-4o", "dated suffix"),
    ("ft:gpt-4o-mini-2024-07-18:org::id", "ft:gpt-4o-mini-2024-07-18", "fine-tune"),
    ("models/gemini-2.5-pro", "gemini-2.5-pro", "prefix"),
    ("azure/gpt-5", "azure/gpt-5", ""),
    ("moonshotai/kimi-k2.6:free", "moonshot/kimi-k2.6", "prefix, route, provider's entry"),
]


@pytest.mark.parametrize(("name", "entry", "how"), FOUND)
def test_a_name_finds_its_entry_and_says_how(name: str, entry: str, how: str) -> None:
    found = BUNDLED.find(name)
    assert found is not None
    assert (found.entry.name, found.how) == (entry, how)


@pytest.mark.parametrize(
    "name",
    [
        "gpt-4o-custom",
        "my-gpt-4o",
        "gpt",
        "llama",
        "o",
        "",
        "acme/gpt-4o",
        "mistral-large-9902",
        "e",
        "x" * 10**6,
        "\ud800",
        "a\nb",
    ],
)
def test_an_unknown_family_stays_unknown(name: str) -> None:
    assert BUNDLED.find(name) is None


def test_the_input_cap_of_a_larger_window_is_not_the_window() -> None:
    found = BUNDLED.find("gpt-5")
    assert found is not None
    assert (found.entry.context_size, found.entry.max_input_tokens) == (400_000, 272_000)


def test_the_upstreams_own_name_goes_first() -> None:
    found = SMALL.find("acme-1", "alpha")
    assert found is not None
    assert (found.entry.name, found.how, found.own) == ("alpha/acme-1", "the upstream's name", True)


CHOSEN = [
    ("acme-1", "beta/acme-1", False),  # the window most providers state
    ("acme-2", "xai/acme-2", True),  # the maker's own
    ("acme-3", "acme-3-2025-01-02", True),
    ("acme-4", "us.anthropic.acme-4-v1:0", False),
    ('QUO"TED/GRößE', 'quo"ted/Größe', False),
]


@pytest.mark.parametrize(("name", "entry", "own"), CHOSEN)
def test_of_several_entries_one_is_chosen_and_only_the_makers_is_its_own(name: str, entry: str, own: bool) -> None:
    found = SMALL.find(name)
    assert found is not None
    assert found.entry.name == entry
    assert found.own is own or not found.how


def test_an_entry_is_a_claim_with_prices_only_where_they_are_its_own() -> None:
    entry = Entry("acme/m", 8_000, input=2.0, output=4.0)
    own = Found(entry, "").claim()
    assert (own.prices, own.trusted, own.detail) == (Prices(2.0, 4.0), True, "acme/m")
    other = Found(entry, "provider's entry", own=False).claim()
    assert (other.prices, other.trusted, other.detail) == (None, False, "acme/m via provider's entry")
    assert Found(Entry("m", 8_000), "").claim().prices is None


def test_origin_and_date_are_known() -> None:
    assert (SMALL.origin.source, SMALL.origin.date, SMALL.origin.models) == ("here", "2026-01-01", 8)
    assert "litellm" in BUNDLED.origin.source
    assert BUNDLED.origin.licence == "MIT"
    assert BUNDLED.origin.models == sum(1 for _ in BUNDLED.entries()) > 3_000


@pytest.mark.parametrize("data", [b"", b"{}", b'{"models":{}}', b"<html>"])
def test_what_is_not_a_table_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a model table"):
        Table(data)
