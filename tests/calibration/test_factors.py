"""Factors by pair: priors, staleness, what replicas share, and the events."""

import pytest

from tests.support.clock import Clock
from trimtab.calibration.factors import ALONE, UNKNOWN, Factors, agreed, prior
from trimtab.limits.events import Event


def factors() -> tuple[Factors, Clock, list[Event]]:
    clock, events = Clock(), []
    return Factors(clock=clock, notify=lambda *event: events.append(Event(*event))), clock, events


def test_a_prior_until_the_first_response() -> None:
    book, _, _ = factors()
    assert book.factor("u", "claude-x") == 1.5
    assert book.observe("u", "claude-x", 10_000, 13_000)
    assert 1.3 <= book.factor("u", "claude-x") < 1.37
    assert book.factor("other", "claude-x") == 1.5


def test_bad_usage_is_counted_and_changes_nothing() -> None:
    book, _, events = factors()
    for usage in (None, 0, -1, "many", 10**12, 3.5):
        assert not book.observe("u", "gpt-4o", 10_000, usage)
    assert [event.kind for event in events] == ["usage_ignored"] * 6
    assert book.factor("u", "gpt-4o") == 1.0


def test_a_factor_is_stale_while_unknown_old_or_outgrown() -> None:
    book, clock, _ = factors()
    assert book.is_stale("u", "m", 0)
    for _ in range(5):
        assert book.is_stale("u", "m", 0)
        book.observe("u", "m", 10_000, 12_000)
    assert not book.is_stale("u", "m", 12_000)
    assert book.is_stale("u", "m", 13_000)
    clock.now += 301
    assert book.is_stale("u", "m", 10_000)
    book.observe("u", "m", 10_000, 12_000)
    assert not book.is_stale("u", "m", 10_000)


def test_moves_are_events_and_stillness_is_not() -> None:
    book, _, events = factors()
    for _ in range(20):
        book.observe("u", "m", 10_000, 12_000)
    assert [event.kind for event in events] == ["factor_moved"]


def test_a_replica_takes_over_what_is_ahead_of_it() -> None:
    (one, _, _), (other, _, _) = factors(), factors()
    for ratio in (1.0, 1.2, 1.4):
        one.observe("u", "m", 10_000, round(10_000 * ratio))
    shared = one.dump("u", "m")
    assert shared is not None
    other.observe("u", "m", 10_000, 10_000)
    other.merge("u", "m", shared)
    assert other.factor("u", "m") == one.factor("u", "m")
    behind = factors()[0]
    behind.observe("u", "m", 10_000, 9_000)
    one.merge("u", "m", behind.dump("u", "m") or b"")
    assert other.factor("u", "m") == one.factor("u", "m")


def test_what_cannot_be_read_is_ignored() -> None:
    book, _, _ = factors()
    for shared in (
        b"",
        b"junk",
        b"{}",
        b'{"seen":[],"follow":0,"step":3}',
        b'{"00":{"seen":[],"follow":0,"step":3}}',
        b'{"00":{"seen":[[0.1,9]],"follow":0,"step":900}}',
        b'{"no hex":{"seen":[[0.1,9]],"follow":0,"step":3}}',
    ):
        book.merge("u", "m", shared)
    assert book.dump("u", "m") is None


def test_one_tenants_odd_text_hardly_moves_another() -> None:
    book, _, _ = factors()
    for _ in range(60):
        book.observe("u", "m", 10_000, 40_000, b"odd")
    assert book.factor("u", "m", b"odd") > 3.9
    assert UNKNOWN <= book.factor("u", "m", b"new") <= UNKNOWN * ALONE
    for _ in range(2):
        book.observe("u", "m", 10_000, 11_000, b"new")
    assert book.factor("u", "m", b"new") <= UNKNOWN * ALONE  # not settled yet
    for _ in range(3):
        book.observe("u", "m", 10_000, 11_000, b"new")
    assert 1.1 <= book.factor("u", "m", b"new") < 1.15
    assert book.factor("u", "m", b"third") < 1.15


AGREED = [
    # factors of others, prior, of a tenant of whom nothing is known
    ([4.0], 1.1, 1.1 * ALONE),
    ([0.5], 1.0, 1.0 / ALONE),
    ([1.2], 1.1, 1.2),
    ([4.0, 1.6], 1.1, 1.6),
    ([4.0, 1.6, 1.7], 1.1, 1.7),
    ([4.0, 0.5], 1.1, 1.1),
]


@pytest.mark.parametrize(("others", "start", "factor"), AGREED)
def test_what_others_agree_on(others: list[float], start: float, factor: float) -> None:
    assert agreed(others, start) == pytest.approx(factor)


def test_replicas_share_the_factors_of_each_tenant() -> None:
    (one, _, _), (other, _, _) = factors(), factors()
    for tenant, tokens in ((b"a", 12_000), (b"b", 14_000), (b"c", 30_000)):
        for _ in range(5):
            one.observe("u", "m", 10_000, tokens, tenant)
    other.merge("u", "m", one.dump("u", "m") or b"")
    for tenant in (b"a", b"b", b"c", b"new"):
        assert other.factor("u", "m", tenant) == one.factor("u", "m", tenant)
    assert 1.4 <= other.factor("u", "m", b"new") < 1.5


PRIORS = [
    ("gpt-4o", 1.0),
    ("openai/gpt-5.1-codex", 1.0),
    ("o3-mini", 1.0),
    ("gpt-oss-120b", 1.0),
    ("gpt-4-turbo", 1.02),
    ("gpt-3.5-turbo", 1.02),
    ("anthropic.claude-sonnet-4-5-20250929-v1:0", 1.5),
    ("Qwen/Qwen3-8B", 1.15),
    ("meta-llama/Llama-3.3-70B-Instruct", 1.03),
    ("deepseek-r1-distill-llama-70b", 1.03),
    ("deepseek-chat", 1.06),
    ("gemini-2.5-pro", 1.2),
    ("mistral-large-latest", 1.2),
    ("mixtral-8x7b", 1.2),
    ("something-else", UNKNOWN),
    ("", UNKNOWN),
]


@pytest.mark.parametrize(("model", "factor"), PRIORS)
def test_prior(model: str, factor: float) -> None:
    assert prior(model) == factor


def test_all_pairs_and_tenants_together_are_bounded() -> None:
    """Models and tenants are named by clients. The pairs used last stay."""
    book = Factors(clock=Clock(), notify=lambda *_: None, most=100)
    for n in range(20):
        for tenant in range(20):
            book.observe("u", f"m{n}", 10_000, 12_000, b"%d" % tenant)
    assert sum(len(tenants) for tenants in book._held.values()) == 100
    assert book.factor("u", "m19", b"19") != UNKNOWN
    assert book.factor("u", "m0", b"0") == UNKNOWN
