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
    ("[sever]\nport = 1", "[sever]", "server"),
    ("upstream = 1", "[upstream]", "upstreams"),
    ("[server]\nprot = 1", "[server] prot", "port"),
    ("[server]\nmax_body = 1", "[server] max_body", "max_body_mb"),
    ("[shaping]\ntarget_share = 0.5", "[shaping] target_share", "target"),
    ("[shaping]\nmax_message_char = 5", "[shaping] max_message_char", "max_message_chars"),
    ("[compaction]\nmodle = 'x'", "[compaction] modle", "model"),
    ("[redis]\nurl = 'redis://x'\ntimeout = 5", "[redis] timeout", "timeout_ms"),
    ("[limits]\nask_usages = 'auto'", "[limits] ask_usages", "ask_usage"),
    ("[telemetry]\nlog_levl = 'info'", "[telemetry] log_levl", "log_level"),
    (UPSTREAM + "models = ['x']\napi_keys = 'x'", "[[upstreams]] 1, api_keys", "api_key"),
    (UPSTREAM + UPSTREAM.replace('"a"', '"b"') + "base_uri = 'x'", "[[upstreams]] 2, base_uri", "base_url"),
    ("[models.ok]\n[models.'gpt-4*']\ncontext = 5", '[models."gpt-4*"] context', "context_size"),
    ("[models.m]\nprices = { inputs = 1.0 }", '[models."m".prices] inputs', "input"),
    ("[profiles.x]\nhints = 'general'", '[profiles."x"] hints', "hint"),
    ("[profiles.x.shaping]\ntraget = 0.5", '[profiles."x".shaping] traget', "target"),
]


@pytest.mark.parametrize(("text", "place", "nearest"), UNKNOWN, ids=[row[1] for row in UNKNOWN])
def test_an_unknown_key_is_refused_with_its_place_and_the_nearest_name(text: str, place: str, nearest: str) -> None:
    line = next(n for n, written in enumerate(text.splitlines(), 1) if place.rsplit(" ")[-1].strip("[]") in written)
    assert refused(text) == f"configuration:{line}: {place} is not a known key. Nearest: {nearest}."


def test_a_key_like_no_other_is_answered_with_the_known_keys() -> None:
    message = refused("[server]\nzzz = 1")
    assert message.startswith("configuration:2: [server] zzz is not a known key. Nearest: ")
    assert "host" in message
    assert "port" in message


# -- wrong values ------------------------------------------------------------------------------------------------

WRONG = [
    ("server = 5", "[server]", "must be a table, not a whole number"),
    ("[server]\nport = 'x'", "[server] port", "must be a whole number, not text"),
    ("[server]\nport = 70000", "[server] port", "must be 65535 or less"),
    ("[server]\nmax_body_mb = 0", "[server] max_body_mb", "must be 1 or more"),
    ("[server]\nmetrics_host = '0.0.0.0'", "[server] metrics_host", "needs metrics_port"),
    ("[server]\nallowed_origins = ['https://a/']", "[server] allowed_origins, item 1", "without a path"),
    ("[server]\ngrace_s = -1", "[server] grace_s", "must be 0 or more"),
    ("[shaping]\ntarget = 1.5", "[shaping] target", "must be 1 or less"),
    ("[shaping]\ntarget = nan", "[shaping] target", "must be"),
    ("[shaping]\ntruncate = 'sometimes'", "[shaping] truncate", 'must be "when_over" or "always"'),
    ("[shaping]\nexclude_tools = 'bash'", "[shaping] exclude_tools", "must be a list, not text"),
    ("[models.m]\ncontext_size = 0", '[models."m"] context_size', "must be 1 or more"),
    ("[models.m]\nprices = { input = -1.0 }", '[models."m".prices] input', "must be 0 or more"),
    ("[compaction]\nsummary_wait_s = 0", "[compaction] summary_wait_s", "must be above 0"),
    ("[redis]\ntimeout_ms = 5", "[redis]", "has no url"),
    ("[telemetry]\ntrace_share = 2", "[telemetry] trace_share", "must be 1 or less"),
    ("[profiles.x]\nhint = 'speed'", '[profiles."x"] hint', 'or "general"'),
    ("[profiles.x.shaping]\ntarget = 'half'", '[profiles."x".shaping] target', "must be a number, not text"),
    ("[[upstreams]]\nname = 'a'", "[[upstreams]] 1:", "has no base_url"),
    ("[[upstreams]]\nname = 'a'\nbase_url = 'nope'", "[[upstreams]] 1, base_url", "https://"),
    (UPSTREAM + "retries = 99", "[[upstreams]] 1, retries", "0 to 10"),
    (UPSTREAM + "summary_role = 'tool'", "[[upstreams]] 1, summary_role", '"system" or "user"'),
]


@pytest.mark.parametrize(("text", "place", "why"), WRONG)
def test_a_wrong_value_is_refused_with_its_place_and_the_reason(text: str, place: str, why: str) -> None:
    message = refused(text)
    assert place in message
    assert why in message


def test_what_is_not_toml_is_refused() -> None:
    assert refused("[server").startswith("configuration: not valid TOML: ")
    assert refused("[server]\nport 5").startswith("configuration:2:6: not valid TOML: ")


def test_everything_that_is_wrong_is_named_at_once() -> None:
    text = "[server]\nport = 'x'\nprot = 1\n" + UPSTREAM + "api_key = '${NO'\nretries = 99\nmodels = []\n[redis]\n"
    text += "[models.m]\ncontext_size = 1\nmax_output_tokens = 2\n"
    found = [line.removeprefix("configuration:").partition(" ")[0] for line in refused(text).splitlines()]
    assert found == ["2:", "3:", "7:", "8:", "9:", "10:", "13:"]


@pytest.mark.parametrize("text", ["${NO", "sk-${KEY", "${KEY}-${NO"])
def test_a_variable_without_its_end_is_refused(text: str) -> None:
    message = refused(UPSTREAM + f"api_key = '{text}'", {"KEY": "sk-secret"})
    assert message == "configuration:4: [[upstreams]] 1, api_key has a ${ without its }: write ${NAME}."


@pytest.mark.parametrize("key", ["max_output_tokens", "max_input_tokens"])
def test_no_part_of_a_window_is_larger_than_the_window(key: str) -> None:
    message = refused(f"[models.m]\ncontext_size = 100\n{key} = 101")
    assert message == f'configuration:3: [models."m"] {key} must not be above context_size (100).'
    assert parse(f"[models.m]\ncontext_size = 100\n{key} = 100", {}).models["m"].context_size == 100


def test_no_secret_is_quoted_in_what_is_refused() -> None:
    message = refused(UPSTREAM + "api_key = 'sk-secret'\nretries = 99")
    assert "sk-secret" not in message


@pytest.mark.parametrize("key", ["team-key", "ab" * 31, "zz" * 32, ""])
def test_client_keys_are_digests_and_nothing_else(key: str) -> None:
    message = refused(f"[server]\nclient_keys = ['{key}']")
    assert "sha256sum" in message
    assert not key or key not in message


def test_two_upstreams_of_one_name_are_refused() -> None:
    assert refused(UPSTREAM + UPSTREAM) == (
        "configuration:5: [[upstreams]] 2, name is 'a', as of an upstream before: give each its own."
    )


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
        ("[redis]\nurl = '${NOT_SET}'", "2: [redis] url"),
        (UPSTREAM + UPSTREAM.replace('"a"', '"b"') + "api_key = '${NOT_SET}'", "7: [[upstreams]] 2, api_key"),
        ("[shaping]\nexclude_tools = ['x', '${NOT_SET}']", "2: [shaping] exclude_tools, item 2"),
    ],
)
def test_a_variable_that_is_not_set_is_named_with_its_place(text: str, place: str) -> None:
    assert refused(text) == (
        f"configuration:{place} reads the environment variable NOT_SET, which is not set: set it, or remove the line."
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
    for path, message in (
        (wrong, ":2: [server] port must be a whole number, not text."),
        (binary, "it is not UTF-8"),
        (tmp_path / "no", "no such file or directory"),
    ):
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
