"""The facade: sources in order, and quick answers."""

from proxy.limits import Limits, ModelSettings


def test_sources_in_order() -> None:
    models = {"gpt-4o": ModelSettings(context_size=50_000), "tiny*": ModelSettings(budget=5_000)}
    limits = Limits(models, environment=ModelSettings(context_size=70_000))
    assert (limits.known("u", "gpt-4o").context_size, limits.known("u", "gpt-4o").source) == (
        50_000,
        "configured",
    )
    assert limits.known("u", "gpt-4o-mini").source == "environment"
    assert (limits.known("u", "tiny-1").budget, limits.known("u", "tiny-1").context_size) == (5_000, 70_000)
    assert Limits().known("u", "gpt-4o").detail == "gpt-4o"
    assert Limits().known("u", "gpt-4o").prices is not None
    assert Limits().known("u", "what-is-this").source == "default"


def test_an_exact_name_beats_its_family() -> None:
    models = {
        "gpt-5.9-custom": ModelSettings(context_size=1_050_000),
        "gpt-5*": ModelSettings(context_size=272_000),
    }
    assert Limits(models).known("u", "gpt-5.9-custom").context_size == 1_050_000


def test_a_known_answer_is_the_same_object() -> None:
    limits = Limits()
    assert limits.known("u", "gpt-4o") is limits.known("u", "gpt-4o")
