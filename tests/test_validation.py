"""Errors of a configuration: each with its place as TOML writes it and its line, all at once, without values."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
import pytest
from msgspec import Meta

from trimtab.validation import Place, Problem, failure, in_words, problems


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    size: Annotated[int, Meta(ge=1)]
    kind: Literal["a", "b"] | None = None
    words: dict[str, str] = {}

    def __post_init__(self) -> None:
        if self.size == 13:
            raise ValueError("size is unlucky: take 12\nthe whole is wrong")


class Outer(msgspec.Struct, forbid_unknown_fields=True):
    inner: Inner | None = None
    many: tuple[Inner, ...] = ()
    named: dict[str, Inner] = {}
    flags: tuple[bool, ...] = ()


FOUND: list[tuple[object, list[tuple[Place, str]]]] = [
    ({"inner": {"size": 1}, "many": [{"size": 2}], "named": {"x": {"size": 3}}, "flags": [True]}, []),
    ({"inner": 5}, [(("inner",), "must be a table, not a whole number")]),
    ({"many": {"size": 1}}, [(("many",), "must be a list, not a table")]),
    ({"many": [{"size": 1}, {"size": 0}]}, [(("many", 1, "size"), "must be 1 or more")]),
    ({"named": {"x": {"size": 1, "kind": "c"}}}, [(("named", "x", "kind"), 'must be "a" or "b"')]),
    (
        {"inner": {"size": 1, "words": {"k": 5}}},
        [(("inner", "words"), "has a value that must be text, not a whole number")],
    ),
    ({"flags": [True, "no"]}, [(("flags", 1), "must be true or false, not text")]),
    ({"inner": {}}, [(("inner",), "has no size: add it")]),
    (
        {"inner": {"size": 13, "kind": "c"}},
        [
            (("inner", "kind"), 'must be "a" or "b"'),
            (("inner", "size"), "is unlucky: take 12"),
            (("inner",), "the whole is wrong"),
        ],
    ),
]


@pytest.mark.parametrize(("value", "found"), FOUND)
def test_what_is_wrong_is_found_with_its_place(value: object, found: list[tuple[Place, str]]) -> None:
    assert list(problems(value, Outer)) == found
    if not found:
        msgspec.convert(value, Outer)


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (("server", "port"), "[server] port"),
        (("server",), "[server]"),
        (("shaping", "exclude_tools", 1), "[shaping] exclude_tools, item 2"),
        (("upstreams", 0, "api_key"), "[[upstreams]] 1, api_key"),
        (("upstreams", 1), "[[upstreams]] 2:"),
        (("models", "a.b"), '[models."a.b"]'),
        (("models", "a.b", "prices", "input"), '[models."a.b".prices] input'),
        ((), ""),
    ],
)
def test_a_place_is_written_as_in_toml(place: Place, words: str) -> None:
    assert in_words(place) == words


TEXT = """# a comment
top = 1
[server]
port = 1 # here
[[upstreams]]
name = "a"
[[upstreams]]
"name" = "b"
[models."gpt-4*"]
prices = { input = 1.0 }
[models.'gpt-4*'.more]
x.y = 1
"""


@pytest.mark.parametrize(
    ("place", "line"),
    [
        (("top",), 2),
        (("server", "port"), 4),
        (("server", "host"), 3),
        (("upstreams", 0, "name"), 6),
        (("upstreams", 1, "name"), 8),
        (("upstreams", 1, "models", 3), 7),
        (("models", "gpt-4*", "prices", "input"), 10),
        (("models", "gpt-4*", "more", "x", "y"), 12),
    ],
)
def test_a_problem_has_the_line_of_its_key_or_of_the_table_around_it(place: Place, line: int) -> None:
    assert failure([Problem(place, "is wrong")], TEXT, "f.toml").message.startswith(f"f.toml:{line}: ")


def test_a_place_that_the_text_does_not_have_is_named_without_a_line() -> None:
    assert failure([Problem(("redis",), "is wrong")], TEXT, "f.toml").message == "f.toml: [redis] is wrong."
