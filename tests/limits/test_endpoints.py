"""What each endpoint states, in every form seen, and what is not believed."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.limits import endpoints

LISTED = [
    # one entry of a listing: window, input cap, output
    ({"max_model_len": 32768}, (32_768, None, None)),
    ({"context_length": 131072, "top_provider": {"context_length": 262000}}, (131_072, None, None)),
    (
        {"context_length": 1048576, "top_provider": {"context_length": 262000, "max_completion_tokens": 262000}},
        (262_000, None, 262_000),
    ),
    ({"context_window": 131072, "max_completion_tokens": 32768}, (131_072, None, 32_768)),
    ({"max_context_length": 32768}, (32_768, None, None)),
    ({"max_context_length": 131072, "loaded_context_length": 4096}, (4_096, None, None)),
    ({"metadata": {"context_length": 40960, "max_tokens": 40960}}, (40_960, None, None)),
    (
        {"capabilities": {"limits": {"max_context_window_tokens": 400000, "max_prompt_tokens": 272000}}},
        (400_000, 272_000, None),
    ),
    ({"inputTokenLimit": 1048576, "outputTokenLimit": 65536}, (1_048_576, None, 65_536)),
    ({"max_model_len": "8192"}, (8_192, None, None)),
    ({"max_model_len": 8192.0}, (8_192, None, None)),
    ({"meta": {"n_ctx_train": 131072}}, None),  # what it was trained for is not what is served
    ({"pricing": {"context_length": 1}, "per_request_limits": {"max_model_len": 300}}, None),
    ({"max_model_len": 0}, None),
    ({"max_model_len": -1}, None),
    ({"max_model_len": 10**30}, None),
    ({"max_model_len": True}, None),
    ({"max_model_len": "lots"}, None),
    ({"max_model_len": None}, None),
    ({"max_model_len": [8192]}, None),
    ({}, None),
]


@pytest.mark.parametrize(("entry", "want"), LISTED)
def test_an_entry_of_a_listing(entry: dict[str, object], want: tuple[int, int | None, int | None] | None) -> None:
    listed = endpoints.listing(json.dumps({"data": [{"id": "Org/Model", **entry}]}).encode())
    claim = listed.claims.get("org/model")
    got = claim and (claim.context_size, claim.max_input_tokens, claim.max_output_tokens)
    assert got == want
    assert listed.names == {"org/model"}


OPENROUTER = [
    # a model's window, that of its top provider, whether the smaller one is trusted
    (1_048_576, 32_000, False),
    (131_072, 262_000, True),
    (131_072, 131_072, True),
    (None, 32_000, False),
]


@pytest.mark.parametrize(("models", "providers", "trusted"), OPENROUTER)
def test_the_window_of_one_of_several_providers_is_a_guess(models: int | None, providers: int, trusted: bool) -> None:
    entry = {"id": "m", "context_length": models, "top_provider": {"context_length": providers}}
    claim = endpoints.listing(json.dumps({"data": [entry]}).encode()).claims["m"]
    assert claim.trusted is trusted


def test_a_listing_says_who_owns_what_and_where_it_stands() -> None:
    body = {"data": [{"id": "m", "owned_by": "vllm", "max_model_len": 4096}, {"id": 3}, "x", {"owned_by": "o"}]}
    listed = endpoints.listing(json.dumps(body).encode())
    assert (listed.names, listed.owners) == ({"m"}, {"vllm", "o"})
    assert listed.claims["m"].detail == "models max_model_len"


PROPS = [
    ({"default_generation_settings": {"n_ctx": 4096}, "total_slots": 4}, 4_096),
    ({"n_ctx": 16384, "total_slots": 4}, 4_096),
    ({"n_ctx": 16384}, 16_384),
    ({"default_generation_settings": {"n_ctx": 0}}, None),
    ({"default_generation_settings": "x", "n_ctx": 10**12}, None),
    ({}, None),
]


@pytest.mark.parametrize(("body", "window"), PROPS)
def test_llama_cpp_props(body: dict[str, object], window: int | None) -> None:
    claim = endpoints.props(json.dumps(body).encode())
    assert (claim and claim.context_size) == window


def test_ollama_running_models() -> None:
    body = {"models": [{"name": "llama3.1:latest", "context_length": 8192}, {"name": "qwen3:8b"}]}
    running = endpoints.running(json.dumps(body).encode())
    assert {name: claim.context_size for name, claim in running.items()} == {"llama3.1": 8_192}


SHOWN = [
    ({"parameters": 'stop "x"\nnum_ctx    16384', "model_info": {"llama.context_length": 131072}}, 16_384),
    ({"model_info": {"general.architecture": "llama", "llama.context_length": 131072}}, 131_072),
    ({"parameters": "num_ctx many"}, None),
    ({"parameters": 7, "model_info": 3}, None),
]


@pytest.mark.parametrize(("body", "window"), SHOWN)
def test_ollama_show(body: dict[str, object], window: int | None) -> None:
    claim = endpoints.shown(json.dumps(body).encode())
    assert (claim and claim.context_size) == window


def test_tgi_info() -> None:
    claim = endpoints.info(b'{"model_id": "m", "max_input_tokens": 4095, "max_total_tokens": 4096}')
    assert claim is not None
    assert (claim.context_size, claim.max_input_tokens) == (4_096, 4_095)


READERS = [endpoints.listing, endpoints.props, endpoints.running, endpoints.shown, endpoints.info]
NOT_AN_ANSWER = [b"", b"<html>", b"[]", b"3", b"null", b'{"a":', b"\xff\xfe", b"[" * 100_000]


@pytest.mark.parametrize("body", NOT_AN_ANSWER)
def test_what_is_not_an_answer_is_nonsense(body: bytes) -> None:
    for read in READERS:
        with pytest.raises(endpoints.Nonsense):
            read(body)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*endpoints.WINDOW, "data", "models", "id", "name", "model_info"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(json_values)
def test_any_json_gives_a_claim_in_range_nothing_or_nonsense(value: object) -> None:
    for read in READERS:
        try:
            got = read(json.dumps(value).encode())
        except endpoints.Nonsense:
            continue
        claims = (
            got.claims.values()
            if isinstance(got, endpoints.Listing)
            else got.values()
            if isinstance(got, dict)
            else [got]
        )
        assert all(c is None or endpoints.LEAST <= (c.context_size or 0) <= endpoints.MOST for c in claims)


def test_a_listing_of_very_many_values_is_not_read() -> None:
    with pytest.raises(endpoints.Nonsense):
        endpoints.listing(b'{"data":[%b]}' % b",".join([b"{}"] * 600_000))
