"""config/trimtab.toml is what operators copy: it must parse, name every key, and tell the truth about defaults."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from tests.cli.commands import run
from trimtab.exchange.policies import PROFILES
from trimtab.settings import Settings, load, parse

SAMPLE = Path(__file__).parents[2] / "config" / "trimtab.toml"
TEXT = SAMPLE.read_text()
# `#key = value` and `#[table]` are settings that are switched off; prose starts with `# `.
SWITCHED_ON = re.sub(r"^#(?=[a-z_]+ = |\[)", "", TEXT, flags=re.M)
ENVIRONMENT = {"OPENAI_API_KEY": "sk-example", "TRIMTAB_SECRET": "example"}

# Values that the sample shows as examples, because there is no default.
EXAMPLES = {
    "server": {"max_in_flight_mb", "remembered_mb", "metrics_host", "metrics_port"},
    "upstreams": {"name", "base_url", "models", "api_key", "headers", "ca_file", "proxy", "base_urls"},
    "models": {"context_size", "max_output_tokens", "max_input_tokens", "budget", "prices"},
    "limits": {"table"},
    "shaping": {"max_messages", "summarize_after_messages"},
    "conversations": {"secret"},
    "compaction": {"prompts", "secret"},
    "redis": {"url", "ca_file"},
    "telemetry": {"otlp_endpoint"},
    "ui": {"enabled"},
}


def structs(kind: Any) -> list[Any]:
    """The settings struct behind a field's type, through optionals, tuples and dictionaries."""
    if hasattr(kind, "__struct_fields__"):
        return [kind]
    return [found for argument in get_args(kind) for found in structs(argument)]


TABLES = [(f.name, structs(f.type)[0]) for f in msgspec.structs.fields(Settings)]


def values(table: str, read: dict[str, Any]) -> list[dict[str, Any]]:
    """Every table of that name in the sample."""
    found = read[table]
    if isinstance(found, list):
        return found
    return list(found.values()) if table in ("models", "profiles") else [found]


def test_the_sample_parses_as_it_stands_without_any_environment() -> None:
    settings = load(SAMPLE, {})
    assert [u.name for u in settings.upstreams] == ["openai"]


def test_the_sample_parses_with_every_line_switched_on() -> None:
    settings = parse(SWITCHED_ON, ENVIRONMENT)
    assert settings.redis is not None
    assert settings.compaction is not None
    assert settings.upstreams[0].api_key == "sk-example"
    assert None not in msgspec.structs.astuple(settings.models["gpt-4*"].prices)


@pytest.mark.parametrize(("table", "struct"), TABLES, ids=[name for name, _ in TABLES])
def test_every_key_is_there(table: str, struct: Any) -> None:
    named = {key for one in values(table, tomllib.loads(SWITCHED_ON)) for key in one}
    assert named == set(struct.__struct_fields__)


@pytest.mark.parametrize(("table", "struct"), TABLES, ids=[name for name, _ in TABLES])
def test_what_is_shown_as_a_default_is_the_default(table: str, struct: Any) -> None:
    if table == "profiles":
        pytest.skip("profiles have no defaults; the built-in ones are compared below")
    defaults = {f.name: f.default for f in msgspec.structs.fields(struct)}
    shown = values(table, tomllib.loads(SWITCHED_ON))[0]
    as_default = {k: v for k, v in shown.items() if k not in EXAMPLES.get(table, set())}
    assert as_default == {k: msgspec.json.decode(msgspec.json.encode(defaults[k])) for k in as_default}


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_built_in_profiles_are_shown_as_they_are(name: str) -> None:
    assert load(SAMPLE, {}).profiles[name] == PROFILES[name]


def test_sample_profiles_go_with_the_shaping() -> None:
    settings = load(SAMPLE, {})
    shaped = {name: profile.shaped(settings.shaping) for name, profile in settings.profiles.items()}
    assert shaped["watched"].mode == "observe"
    assert shaped["frugal"].target == 0.4


def test_it_is_printed_for_whoever_has_no_checkout(tmp_path: Path) -> None:
    printed = run("config").output
    assert printed == TEXT
    (tmp_path / "own.toml").write_text(printed)
    assert load(tmp_path / "own.toml", {}) == load(SAMPLE, {})
