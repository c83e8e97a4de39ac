"""The configuration file: what is read, and the errors in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimtab.errors import ConfigError
from trimtab.exchange.policies import PROFILES
from trimtab.settings import Settings, check_exposure, load, parse

SAMPLE = Path(__file__).parents[1] / "config" / "trimtab.toml"
UPSTREAM = '[[upstreams]]\nname = "a"\nbase_url = "http://localhost:1/v1"\n'


def refused(text: str, environment: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as error:
        parse(text, environment or {})
    return error.value.message


# -- unknown keys ------------------------------------------------------------------------------------------------

UNKNOWN = [
    ("[sever]\nport = 1", "$", "sever", "server"),
    ("upstream = 1", "$", "upstream", "upstreams"),
    ("[server]\nprot = 1", "$.server", "prot", "port"),
    ("[server]\nmax_body = 1", "$.server", "max_body", "max_body_mb"),
    ("[shaping]\ntarget_share = 0.5", "$.shaping", "target_share", "target"),
    ("[shaping]\nmax_message_char = 5", "$.shaping", "max_message_char", "max_message_chars"),
    ("[compaction]\nmodle = 'x'", "$.compaction", "modle", "model"),
    ("[redis]\nurl = 'redis://x'\ntimeout = 5", "$.redis", "timeout", "timeout_ms"),
    ("[limits]\nask_usages = 'auto'", "$.limits", "ask_usages", "ask_usage"),
    ("[telemetry]\nlog_levl = 'info'", "$.telemetry", "log_levl", "log_level"),
    (UPSTREAM + "models = ['x']\napi_keys = 'x'", "$.upstreams[0]", "api_keys", "api_key"),
    (UPSTREAM + UPSTREAM.replace('"a"', '"b"') + "base_uri = 'x'", "$.upstreams[1]", "base_uri", "base_url"),
    ("[models.ok]\n[models.'gpt-4*']\ncontext = 5", '$.models."gpt-4*"', "context", "context_size"),
    ("[models.m]\nprices = { inputs = 1.0 }", '$.models."m".prices', "inputs", "input"),
    ("[profiles.x]\nhints = 'general'", '$.profiles."x"', "hints", "hint"),
    ("[profiles.x.shaping]\ntraget = 0.5", '$.profiles."x".shaping', "traget", "target"),
]


@pytest.mark.parametrize(("text", "place", "key", "nearest"), UNKNOWN, ids=[row[2] for row in UNKNOWN])
def test_an_unknown_key_is_refused_with_its_place_and_the_nearest_name(
    text: str, place: str, key: str, nearest: str
) -> None:
    assert refused(text) == f"Unknown key {key!r} in {place}. Nearest: {nearest}."


def test_a_key_like_no_other_is_answered_with_the_known_keys() -> None:
    message = refused("[server]\nzzz = 1")
    assert message.startswith("Unknown key 'zzz' in $.server. Nearest: ")
    assert "host" in message
    assert "port" in message


# -- wrong values ------------------------------------------------------------------------------------------------

WRONG = [
    ("server = 5", "$.server", "object"),
    ("[server]\nport = 'x'", "$.server.port", "int"),
    ("[server]\nport = 70000", "$.server.port", "<= 65535"),
    ("[server]\nmax_body_mb = 0", "$.server.max_body_mb", ">= 1"),
    ("[server]\ngrace_s = -1", "$.server.grace_s", ">= 0"),
    ("[shaping]\ntarget = 1.5", "$.shaping.target", "<= 1"),
    ("[shaping]\ntarget = nan", "$.shaping.target", ""),
    ("[shaping]\ntruncate = 'sometimes'", "$.shaping.truncate", "sometimes"),
    ("[shaping]\nexclude_tools = 'bash'", "$.shaping.exclude_tools", "array"),
    ("[models.m]\ncontext_size = 0", '$.models."m".context_size', ">= 1"),
    ("[models.m]\nprices = { input = -1.0 }", '$.models."m".prices.input', ">= 0"),
    ("[compaction]\nsummary_wait_s = 0", "$.compaction.summary_wait_s", "> 0"),
    ("[redis]\ntimeout_ms = 5", "$.redis", "url"),
    ("[telemetry]\ntrace_share = 2", "$.telemetry.trace_share", "<= 1"),
    ("[profiles.x]\nhint = 'speed'", '$.profiles."x".hint', "speed"),
    ("[profiles.x.shaping]\ntarget = 'half'", '$.profiles."x".shaping.target', "float"),
    ("[[upstreams]]\nname = 'a'", "$.upstreams[0]", "base_url"),
    ("[[upstreams]]\nname = 'a'\nbase_url = 'nope'", "$.upstreams[0]", "https://"),
    (UPSTREAM + "retries = 99", "$.upstreams[0]", "0 to 10"),
    (UPSTREAM + "summary_role = 'tool'", "$.upstreams[0].summary_role", "tool"),
]


@pytest.mark.parametrize(("text", "place", "why"), WRONG)
def test_a_wrong_value_is_refused_with_its_place_and_the_reason(text: str, place: str, why: str) -> None:
    message = refused(text)
    assert place in message
    assert why in message


def test_what_is_not_toml_is_refused() -> None:
    assert refused("[server").startswith("Not valid TOML: ")


def test_no_secret_is_quoted_in_what_is_refused() -> None:
    message = refused(UPSTREAM + "api_key = 'sk-secret'\nretries = 99")
    assert "sk-secret" not in message


@pytest.mark.parametrize("key", ["team-key", "ab" * 31, "zz" * 32, ""])
def test_client_keys_are_digests_and_nothing_else(key: str) -> None:
    message = refused(f"[server]\nclient_keys = ['{key}']")
    assert "sha256sum" in message
    assert not key or key not in message


def test_two_upstreams_of_one_name_are_refused() -> None:
    assert refused(UPSTREAM + UPSTREAM) == "Two upstreams are named 'a'. Give each its own name."


# -- the environment ---------------------------------------------------------------------------------------------


def test_the_environment_stands_in_for_names_inside_strings() -> None:
    text = UPSTREAM + 'api_key = "${KEY}"\nheaders = { "X-Org" = "org-${ORG}-${ORG}" }\n'
    upstream = parse(text, {"KEY": "sk-1", "ORG": "7"}).upstreams[0]
    assert upstream.api_key == "sk-1"
    assert upstream.headers == {"X-Org": "org-7-7"}


@pytest.mark.parametrize("text", ["$KEY", "${}", "${1A}", "$ {KEY}", "{KEY}", "100$"])
def test_only_that_spelling_reads_it(text: str) -> None:
    assert parse(f"[telemetry]\nservice_name = '{text}'", {"KEY": "x"}).telemetry.service_name == text


def test_what_the_environment_holds_is_not_read_again() -> None:
    assert parse("[telemetry]\nservice_name = '${A}'", {"A": "${B}", "B": "x"}).telemetry.service_name == "${B}"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[redis]\nurl = '${NOT_SET}'", "$.redis.url"),
        (UPSTREAM + UPSTREAM.replace('"a"', '"b"') + "api_key = '${NOT_SET}'", "$.upstreams[1].api_key"),
        ("[shaping]\nexclude_tools = ['x', '${NOT_SET}']", "$.shaping.exclude_tools[1]"),
    ],
)
def test_a_variable_that_is_not_set_is_named_with_its_place(text: str, place: str) -> None:
    assert refused(text) == (
        f"The environment variable NOT_SET is not set, but {place} uses it. Set it, or remove the line."
    )


# -- profiles, files, exposure -----------------------------------------------------------------------------------


def test_profiles_stand_beside_those_built_in_or_in_their_place() -> None:
    text = "[shaping]\ntarget = 0.4\n[profiles.replan]\nbudget = 7\n[profiles.own.shaping]\nkeep_share = 0.1\n"
    settings = parse(text, {})
    profiles = settings.all_profiles
    assert set(profiles) == {*PROFILES, "own"}
    assert (profiles["replan"].budget, profiles["replan"].shaping) == (7, {})
    own = profiles["own"].shaped(settings.shaping)
    assert (own.target, own.keep_share) == (0.4, 0.1)


def test_no_file_and_an_empty_file_are_the_defaults() -> None:
    assert load(None) == parse("", {}) == Settings()


def test_the_sample_is_read_as_it_stands() -> None:
    assert [upstream.name for upstream in load(SAMPLE, {}).upstreams] == ["openai"]


def test_a_file_is_named_in_what_is_wrong_with_it(tmp_path: Path) -> None:
    wrong, binary = tmp_path / "wrong.toml", tmp_path / "binary.toml"
    wrong.write_text("[server]\nport = 'x'")
    binary.write_bytes(b"\xff\xfe")
    for path, message in ((wrong, "$.server.port"), (binary, "Cannot read"), (tmp_path / "no", "Cannot read")):
        with pytest.raises(ConfigError) as error:
            load(path)
        assert str(path) in error.value.message
        assert message in error.value.message


KEYED = UPSTREAM + 'api_key = "sk-secret"\n'
GUARD = f'client_keys = ["{"ab" * 32}"]\n'


@pytest.mark.parametrize(
    ("text", "host", "more", "exposed"),
    [
        (KEYED, "127.0.0.1", "", False),
        (KEYED, "localhost", "", False),
        (KEYED, "::1", "", False),
        (KEYED, "0.0.0.0", "", True),
        (KEYED, "::", "", True),
        (KEYED, "192.168.1.5", "", True),
        (KEYED, "0.0.0.0", GUARD, False),
        (UPSTREAM, "0.0.0.0", "", False),
        (UPSTREAM + 'headers = { "X-Key" = "sk-secret" }\n', "0.0.0.0", "", True),
    ],
)
def test_a_port_that_others_reach_needs_client_keys(text: str, host: str, more: str, exposed: bool) -> None:
    settings = parse(f'{text}[server]\nhost = "{host}"\n{more}', {})
    if not exposed:
        check_exposure(settings)
        return
    with pytest.raises(ConfigError) as refusal:
        check_exposure(settings)
    assert host in refusal.value.message
    assert "client_keys" in refusal.value.message
    assert "sk-secret" not in refusal.value.message
