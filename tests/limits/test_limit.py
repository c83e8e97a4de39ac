"""The default limit, the assumed output, and from claims to one limit."""

import pytest

from trimtab.limits.limit import DEFAULT, Claim, Limit, assumed_output, claim_of, resolve
from trimtab.limits.settings import ModelSettings, Prices


def test_the_default_is_a_guess_and_says_what_to_do() -> None:
    assert (DEFAULT.context_size, DEFAULT.max_output_tokens, DEFAULT.trusted) == (128_000, 64_000, False)
    assert "set context_size" in DEFAULT.detail
    assert Limit(context_size=1, max_output_tokens=1).trusted


@pytest.mark.parametrize(("window", "output"), [(1, 1), (4_096, 1_024), (32_768, 8_192), (1_000_000, 64_000)])
def test_the_output_assumed_for_a_window(window: int, output: int) -> None:
    assert assumed_output(window) == output


def test_an_operators_table_is_a_claim() -> None:
    claim = claim_of("configured", 'models."m"', ModelSettings(context_size=5, prices=Prices(input=1.0)))
    assert (claim.source, claim.detail, claim.context_size, claim.budget) == ("configured", 'models."m"', 5, None)
    assert claim.prices == Prices(input=1.0)


TABLE = Claim(source="bundled", context_size=400_000, max_output_tokens=128_000, max_input_tokens=272_000)


def test_nothing_claimed_is_the_default_and_not_trusted() -> None:
    assert resolve([]) == DEFAULT
    assert not resolve([Claim(source="configured", budget=9_000)]).trusted


CASES = [
    # claims, context, output, input cap, budget, source
    ([TABLE], 400_000, 128_000, 272_000, None, "bundled"),
    ([Claim(source="configured", budget=50_000), TABLE], 400_000, 128_000, 272_000, 50_000, "bundled"),
    (
        [Claim(source="configured", context_size=1_050_000), TABLE],
        1_050_000,
        128_000,
        None,
        None,
        "configured",
    ),
    (
        [Claim(source="configured", context_size=400_000), TABLE],
        400_000,
        128_000,
        272_000,
        None,
        "configured",
    ),
    ([Claim(source="discovered", context_size=32_768)], 32_768, 8_192, None, None, "discovered"),
    ([Claim(source="discovered", context_size=32_768), TABLE], 32_768, 32_768, None, None, "discovered"),
    ([Claim(source="environment", max_output_tokens=4_096), TABLE], 400_000, 4_096, 272_000, None, "bundled"),
    ([Claim(source="configured", max_input_tokens=9_000), TABLE], 400_000, 128_000, 9_000, None, "bundled"),
    ([Claim(source="configured", max_output_tokens=1_000)], 128_000, 1_000, None, None, "default"),
]


@pytest.mark.parametrize(("claims", "context", "output", "cap", "budget", "source"), CASES)
def test_the_first_that_answers(
    claims: list[Claim], context: int, output: int, cap: int | None, budget: int | None, source: str
) -> None:
    limit = resolve(claims)
    assert (limit.context_size, limit.max_output_tokens) == (context, output)
    assert (limit.max_input_tokens, limit.budget, limit.source) == (cap, budget, source)


def test_another_providers_entry_is_not_trusted() -> None:
    assert isinstance(resolve([Claim(source="bundled", context_size=8_000, trusted=False)]), Limit)
    assert not resolve([Claim(source="bundled", context_size=8_000, trusted=False)]).trusted
