"""Each source as a claim."""

from trimtab.limits.claims import from_settings, from_table
from trimtab.limits.settings import ModelSettings, Prices
from trimtab.limits.table import Entry, Found


def test_an_operators_table_is_a_claim() -> None:
    claim = from_settings("configured", 'models."m"', ModelSettings(context_size=5, prices=Prices(input=1.0)))
    assert (claim.source, claim.detail, claim.context_size, claim.budget) == ("configured", 'models."m"', 5, None)
    assert claim.prices == Prices(input=1.0)


def test_an_entry_is_a_claim_with_prices_only_where_they_are_its_own() -> None:
    entry = Entry("acme/m", 8_000, input=2.0, output=4.0)
    own = from_table(Found(entry, ""))
    assert (own.prices, own.trusted, own.detail) == (Prices(2.0, 4.0), True, "acme/m")
    other = from_table(Found(entry, "provider's entry", own=False))
    assert (other.prices, other.trusted, other.detail) == (None, False, "acme/m via provider's entry")
    assert from_table(Found(Entry("m", 8_000), "")).prices is None
