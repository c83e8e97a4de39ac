"""The limit where nobody knows, and the output where nobody says."""

import pytest

from trimtab.limits.limit import DEFAULT, Limit, assumed_output


def test_the_default_is_a_guess_and_says_what_to_do() -> None:
    assert (DEFAULT.context_size, DEFAULT.max_output_tokens, DEFAULT.trusted) == (128_000, 64_000, False)
    assert "set context_size" in DEFAULT.detail
    assert Limit(context_size=1, max_output_tokens=1).trusted


@pytest.mark.parametrize(("window", "output"), [(1, 1), (4_096, 1_024), (32_768, 8_192), (1_000_000, 64_000)])
def test_the_output_assumed_for_a_window(window: int, output: int) -> None:
    assert assumed_output(window) == output
