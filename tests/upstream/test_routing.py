"""Which upstream takes a model."""

from __future__ import annotations

import pytest

from trimtab.errors import UnknownModel
from trimtab.upstream.routing import route
from trimtab.upstream.settings import UpstreamSettings


def upstream(name: str, *models: str) -> UpstreamSettings:
    return UpstreamSettings(name=name, base_url="http://host/v1", models=models)


UPSTREAMS = [
    upstream("mini", "gpt-4o-mini"),
    upstream("openai", "gpt-*", "o[134]*"),
    upstream("local", "Qwen/*", "smollm2"),
]

ROUTES = [
    ("gpt-4o-mini", "mini"),
    ("gpt-4o", "openai"),
    ("o3", "openai"),
    ("Qwen/Qwen3-8B", "local"),
    ("smollm2", "local"),
    (None, "mini"),
]


@pytest.mark.parametrize(("model", "name"), ROUTES)
def test_the_first_that_matches(model: str | None, name: str) -> None:
    assert route(model, UPSTREAMS).name == name


def test_a_star_takes_everything() -> None:
    assert route("anything at all", [*UPSTREAMS, upstream("rest", "*")]).name == "rest"


@pytest.mark.parametrize("model", ["o2", "qwen/qwen3", "smollm", "GPT-4o", "", "x" * 5000])
def test_a_model_no_one_takes(model: str) -> None:
    with pytest.raises(UnknownModel, match="No upstream takes the model") as caught:
        route(model, UPSTREAMS)
    assert caught.value.param == "model"
    assert len(caught.value.message) < 400


def test_the_nearest_names_are_told() -> None:
    with pytest.raises(UnknownModel, match=r"Nearest: smollm2\."):
        route("smollm", UPSTREAMS)
    with pytest.raises(UnknownModel, match="Send one of"):
        route("smollm", [])
