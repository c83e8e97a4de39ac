"""How much input a request may have, and when its `max_tokens` is lowered."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.limits.budget import Budget, lowered_max_tokens, next_power_of_two, usable, widest
from trimtab.limits.limit import DEFAULT, Limit


def limit(context: int, output: int, *, most_input: int | None = None, budget: int | None = None) -> Limit:
    return Limit(
        context_size=context,
        max_output_tokens=output,
        max_input_tokens=most_input,
        budget=budget,
        source="configured",
    )


USABLE = [
    # limit, max_tokens, usable, reserved
    (limit(128_000, 16_384), None, 111_616, 16_384),
    (limit(128_000, 16_384), 1_000, 126_976, 1_024),
    (limit(128_000, 16_384), 1_024, 126_976, 1_024),
    (limit(128_000, 16_384), 50_000, 111_616, 16_384),
    (limit(128_000, 16_384), 0, 111_616, 16_384),
    (limit(400_000, 128_000, most_input=272_000), 1_000, 272_000, 1_024),
    (limit(200_000, 8_192, budget=100_000), None, 100_000, 8_192),
    (limit(200_000, 8_192, budget=1_000), None, 1_000, 8_192),  # an operator's word goes below the floor
    (limit(204_800, 131_072), 131_072, 102_400, 102_400),
    (limit(1_048_576, 384_000), 384_000, 664_576, 384_000),
    (limit(262_144, 262_134), None, 131_072, 131_072),  # "output 262,134 of 262,144" must not eat the window
    (limit(8_192, 4_096), 20_000, 4_096, 4_096),
    (limit(8_192, 20_000), 20_000, 4_096, 4_096),  # reserve clamped to half
    (limit(6_000, 6_000), None, 4_000, 3_000),  # the floor
    (limit(4_096, 4_096), None, 3_686, 2_048),  # never above 90 % of the window
    (limit(1, 1), None, 1, 0),
    (DEFAULT, None, 64_000, 64_000),
    (DEFAULT, 4_000, 123_904, 4_096),
]


@pytest.mark.parametrize(("model", "max_tokens", "want", "reserved"), USABLE)
def test_usable(model: Limit, max_tokens: int | None, want: int, reserved: int) -> None:
    assert usable(model, max_tokens) == Budget(want, reserved, model.context_size, want)


LOWERED = [
    # limit, max_tokens, input, max_tokens to send
    (limit(204_800, 131_072), 131_072, 90_000, 113_000),  # room for both once the output is smaller
    (limit(204_800, 131_072), 131_072, 70_000, None),  # both fit
    (limit(163_840, 16_384), 4_096, 162_900, None),  # 64 tokens of answer would be no answer: compact
    (limit(8_192, 8_192), 20_000, 3, None),  # alone larger than the window: the upstream decides
    (limit(262_000, 262_000), 262_000, 1_390, None),
    (limit(4_096, 4_096), 1_024, 3_500, 526),
    (limit(4_096, 4_096), 200, 3_900, 118),
    (limit(8_192, 8_192), None, 9_000, None),
    (DEFAULT, 100_000, 100_000, None),  # a guess lowers nothing
]


@pytest.mark.parametrize(("model", "max_tokens", "tokens", "want"), LOWERED)
def test_lowered_max_tokens(model: Limit, max_tokens: int | None, tokens: int, want: int | None) -> None:
    assert lowered_max_tokens(model, max_tokens, tokens) == want


@pytest.mark.parametrize(("n", "power"), [(-5, 1), (0, 1), (1, 1), (2, 2), (3, 4), (4096, 4096), (4097, 8192)])
def test_next_power_of_two(n: int, power: int) -> None:
    assert next_power_of_two(n) == power


sizes = st.integers(1, 20_000_000)
limits = st.builds(limit, sizes, sizes, most_input=st.none() | sizes, budget=st.none() | sizes)


@given(limits, st.none() | st.integers(-1, 30_000_000))
def test_the_budget_is_positive_and_inside_the_window(model: Limit, max_tokens: int | None) -> None:
    budget = usable(model, max_tokens)
    assert 0 < budget.usable <= model.context_size
    assert 0 <= budget.reserved <= model.context_size // 2


@given(limits, st.integers(1, 30_000_000), st.integers(0, 30_000_000))
def test_what_is_lowered_fits_and_is_less(model: Limit, max_tokens: int, tokens: int) -> None:
    lowered = lowered_max_tokens(model, max_tokens, tokens)
    if lowered is not None:
        assert 0 < lowered < max_tokens
        assert tokens + lowered < model.context_size


WIDEST = [  # window, output cap, max_tokens -> usable, reserved
    (32_768, 16_384, 16_000, 31_744, 1_024),
    (32_768, 16_384, None, 31_744, 1_024),
    (8_192, 8_000, 7_000, 7_680, 512),
    (8_192, 1_024, 100, 8_142, 50),
    (1_000, 1_000, 10**9, 938, 62),
]


@pytest.mark.parametrize(("window", "output", "asked", "room", "reserved"), WIDEST)
def test_the_widest_budget_leaves_the_least_output_worth_having(
    window: int, output: int, asked: int | None, room: int, reserved: int
) -> None:
    assert widest(limit(window, output), asked) == Budget(room, reserved, window, room)


def test_under_a_cap_the_most_it_may_have_stays() -> None:
    whole = usable(limit(128_000, 16_384))
    capped = whole.under(16_000)
    assert (capped.usable, capped.most, capped.reserved) == (16_000, 111_616, 16_384)
    assert whole.under(None) == whole.under(200_000) == whole
    assert whole.under(0).usable == 1
