"""What is wrong with a configuration: everything at once, in words, each with its place and its line.

msgspec stops at the first error and writes paths like `$.upstreams[...]`. So each table is checked key by key against
the struct that declares it; only tables without an error of their own are converted whole, for what their struct checks
itself. A value is never quoted, unless it is one of a closed list: it may be a key.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple, get_args, get_origin

import msgspec

from trimtab.errors import ConfigError

Place = tuple[str | int, ...]
"""Where a value stands: names of tables and keys, and numbers of list items from 0."""


class Problem(NamedTuple):
    """One thing that is wrong. The text continues the place: `[server] port` + `must be 1 or more`."""

    place: Place
    text: str


def problems(value: Any, kind: Any, place: Place = ()) -> Iterator[Problem]:
    """Everything that keeps `value` from being a `kind`."""
    table = next((each for each in (kind, *get_args(kind)) if hasattr(each, "__struct_fields__")), None)
    if table is None or value is None:
        yield from _of_value(value, kind, place)
    elif get_origin(kind) is tuple and isinstance(value, list):
        for number, item in enumerate(value):
            yield from problems(item, table, (*place, number))
    elif get_origin(kind) is dict and isinstance(value, dict):
        for name, item in value.items():
            yield from problems(item, table, (*place, name))
    elif isinstance(value, dict) and get_origin(kind) is not tuple:
        yield from _of_table(value, table, place)
    else:
        yield from _of_value(value, kind, place)


def failure(found: list[Problem], text: str, name: str) -> ConfigError:
    """The error for the problems of a file's `text`: a line for each, which begins with the file's `name` and the
    number of the line."""
    lines = []
    numbered = [(_line_of(text, problem.place) or 0, problem) for problem in found]
    for number, problem in sorted(numbered, key=lambda each: each[0]):
        lines.append(f"{name}:{number}: {_sentence(problem)}" if number else f"{name}: {_sentence(problem)}")
    return ConfigError("\n".join(lines))


def _of_table(value: dict[str, Any], table: Any, place: Place) -> Iterator[Problem]:
    fields = {field.name: field for field in msgspec.structs.fields(table)}
    sound = dict(value)
    for problem in _of_keys(value, fields, place):
        sound.pop(str(problem.place[len(place)]) if len(problem.place) > len(place) else "", None)
        yield problem
    if all(key in sound or not field.required for key, field in fields.items()):
        yield from _of_struct(sound, table, place)


def _of_keys(value: dict[str, Any], fields: Mapping[str, Any], place: Place) -> Iterator[Problem]:
    for key, item in value.items():
        if key in fields:
            yield from problems(item, fields[key].type, (*place, key))
        else:
            near = get_close_matches(key, fields, n=1) or sorted(fields)
            yield Problem((*place, key), f"is not a known key. Nearest: {', '.join(near)}")
    for key, field in fields.items():
        if field.required and key not in value:
            yield Problem(place, f"has no {key}: add it")


def _of_struct(value: dict[str, Any], table: Any, place: Place) -> Iterator[Problem]:
    """What a struct finds itself in values that have the right types: a line for each, which may begin with a key."""
    try:
        msgspec.convert(value, table)
    except msgspec.ValidationError as error:
        for line in str(error).removesuffix(" - at `$`").split("\n"):
            key = line.partition(" ")[0].rstrip(":")
            known = key in table.__struct_fields__
            yield Problem((*place, key), line[len(key) :].strip(": ")) if known else Problem(place, line)


def _of_value(value: Any, kind: Any, place: Place) -> Iterator[Problem]:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        text, _, at = str(error).partition(" - at `$")
        item = re.match(r"\[(\d+)\]", at)
        words = _in_words(text, kind)
        yield Problem(
            (*place, int(item[1])) if item else place, f"has a value that {words}" if at[:2] == "[." else words
        )


_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
}
_BOUNDS = {">=": "{} or more", "<=": "{} or less", ">": "above {}", "<": "below {}"}


def _in_words(text: str, kind: Any) -> str:
    """msgspec's message about one value, in words."""
    if choices := _choices(kind):
        return f"must be {', '.join(choices[:-1])} or {choices[-1]}"
    if bound := re.search(r"`[^`]*` (>=|<=|>|<) (\S+)$", text):
        return "must be " + _BOUNDS[bound[1]].format(bound[2].removesuffix(".0"))
    if types := re.fullmatch(r"Expected `([^`]*)`, got `([^`]*)`", text):
        wanted = [_WORDS.get(each, each) for each in types[1].split(" | ") if each != "null"]
        return f"must be {' or '.join(wanted)}, not {_WORDS.get(types[2], types[2])}"
    return f"is wrong: {text}"


def _choices(kind: Any) -> list[str]:
    """The words a value may be, for a `Literal` and for one that may be left out."""
    literal = next((each for each in (kind, *get_args(kind)) if get_origin(each) is Literal), None)
    return [f'"{each}"' for each in get_args(literal)]


def _sentence(problem: Problem) -> str:
    return f"{in_words(problem.place)} {problem.text}".strip().removesuffix(".") + "."


def in_words(place: Place) -> str:
    """A place as it is written in TOML: `[server] port`, `[[upstreams]] 2, api_key`, `[models."m".prices] input`."""
    names = [number for number, part in enumerate(place) if isinstance(part, str)]
    if not names:
        return ""
    table, key = place[: names[-1]], place[names[-1]]
    rest = "".join(f", item {int(part) + 1}" for part in place[names[-1] + 1 :])
    if not table:
        return f"[[{key}]] {int(place[1]) + 1}:" if len(place) > 1 else f"[{key}]"
    if isinstance(table[-1], int):
        return f"[[{table[0]}]] {table[-1] + 1}, {key}{rest}"
    if len(table) == 1 and table[0] in ("models", "profiles"):
        return f'[{table[0]}."{key}"]{rest}'
    quoted = (f'"{part}"' if number == 1 else str(part) for number, part in enumerate(table))
    return f"[{'.'.join(quoted)}] {key}{rest}"


_NAME = r"""(?:"[^"]*"|'[^']*'|[\w-]+)"""
_NAMES = rf"{_NAME}(?:\s*\.\s*{_NAME})*"
_HEADER = re.compile(rf"\s*(\[\[?)\s*({_NAMES})\s*\]")
_KEY = re.compile(rf"\s*({_NAMES})\s*=")


def _line_of(text: str, place: Place) -> int | None:
    """The line of the value at `place`, or of the nearest table around it; None where neither is found."""
    table: Place = ()
    counts: Counter[Place] = Counter()
    best, line = 0, None
    for number, written in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(written):
            here = table = _names(header[2])
            if header[1] == "[[":
                here = table = (*table, counts[table])
                counts[table[:-1]] += 1
        elif key := _KEY.match(written):
            here = (*table, *_names(key[1]))
        else:
            continue
        if best < len(here) <= len(place) and place[: len(here)] == here:
            best, line = len(here), number
    return line


def _names(dotted: str) -> Place:
    return tuple(name.strip("\"'") for name in re.findall(_NAME, dotted))
