"""The rules of the house that no linter knows: each is a list of what breaks it, and the list is empty."""

from __future__ import annotations

import ast
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "proxy" / "trimtab"
MODULES = sorted(PACKAGE.rglob("*.py"))
LONGEST = 60  # lines of a function, docstring included: one screen
# Modules that only name what others hold, or start a command.
NOTHING_TO_TEST = frozenset({"proxy/trimtab/__init__.py", "proxy/trimtab/__main__.py"})


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def own_tests(path: Path) -> Path:
    """`trimtab/a/b.py` is tested by `tests/a/test_b.py`, a package by a file of its own name among its modules'."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    own = parts[-1] if parts[-1] != "__init__" else path.parent.name
    return ROOT.joinpath("tests", *parts[:-1], f"test_{own}.py")


def holds_something(path: Path) -> bool:
    """Whether a module defines anything: a package that only names what its modules hold is tested by theirs."""
    return any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) for node in tree(path).body)


SMALL = 80  # lines; a module below may share the test file of its package


def test_every_module_is_tested_by_a_file_of_its_own_or_a_small_one_by_its_packages() -> None:
    needing = [p for p in MODULES if holds_something(p) and name(p) not in NOTHING_TO_TEST]
    places = {p: [own_tests(p), own_tests(p).parents[1] / own_tests(p).name] for p in needing}
    for path, where in places.items():
        if len(path.read_text().splitlines()) < SMALL:
            where.append(own_tests(path).with_name(f"test_{path.parent.name}.py"))
    assert [name(p) for p, where in places.items() if not any(path.exists() for path in where)] == []


def test_no_test_file_imports_from_another() -> None:
    """What several need lies in `tests/support`, or beside them under a name of its own."""
    shared = re.compile(r"^\s*(?:from|import) tests\.(?:\w+\.)*test_", re.MULTILINE)
    assert [name(p) for p in sorted((ROOT / "tests").rglob("*.py")) if shared.search(p.read_text())] == []


def test_every_module_opens_with_its_rule() -> None:
    assert [name(p) for p in MODULES if tree(p).body and not ast.get_docstring(tree(p))] == []


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_no_function_is_longer_than_a_screen() -> None:
    lengths = [(f.end_lineno - f.lineno + 1, name(p), f.name) for p in MODULES for f in functions(p) if f.end_lineno]
    assert [found for found in lengths if found[0] > LONGEST] == []


def test_half_of_all_functions_fit_in_nine_lines() -> None:
    lengths = sorted(f.end_lineno - f.lineno + 1 for p in MODULES for f in functions(p) if f.end_lineno)
    assert lengths[len(lengths) // 2] <= 9


def broad(path: Path) -> list[int]:
    """Lines of handlers that catch whatever comes."""
    caught = (n for n in ast.walk(tree(path)) if isinstance(n, ast.ExceptHandler))
    return [
        n.lineno
        for n in caught
        if n.type is None or (isinstance(n.type, ast.Name) and n.type.id in ("Exception", "BaseException"))
    ]


def test_only_the_exchange_catches_whatever_comes() -> None:
    # `gateway` answers the client, `planning` and `chat` pass its own bytes on; `calls` and `call` let it out again.
    exchange = {f"proxy/trimtab/exchange/{name}.py" for name in ("gateway", "planning", "chat", "calls")}
    allowed = exchange | {"proxy/trimtab/upstream/call.py"}
    assert [name(p) for p in MODULES if broad(p) and name(p) not in allowed] == []


def test_nothing_is_named_after_nothing() -> None:
    empty = re.compile(r"(^|_)(manager|helpers?|utils?|common|misc)($|_)", re.IGNORECASE)
    assert [name(p) for p in MODULES if empty.search(p.stem) or empty.search(p.parent.name)] == []


def test_the_map_in_the_readme_names_every_layer() -> None:
    readme = (ROOT / "README.md").read_text()
    layers = sorted({p.relative_to(PACKAGE).parts[0] for p in MODULES if len(p.relative_to(PACKAGE).parts) > 1})
    assert [layer for layer in layers if f"`proxy/trimtab/{layer}`" not in readme] == []


# -- what only tests use -----------------------------------------------------------------------------------------

# Public names that nothing in the package reads, each with its reason.
READ_FROM_OUTSIDE = {
    "context/estimate/tokens.py MAX_WEIGHT": "tests/bench/fit_weights.py fits the weights below it",
    "upstream/aiohttp_hooks.py Request.update_headers": "aiohttp calls it for every request",
    "upstream/aiohttp_hooks.py Request.update_auto_headers": "aiohttp calls it for every request",
}
REGISTERING = ("click", "get", "post", "route", "asgi")  # decorators after which a library is the caller

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def is_registered(definition: Definition) -> bool:
    """Whether a decorator hands the function to a library, which calls it."""
    names = (n for decorator in definition.decorator_list for n in ast.walk(decorator) if isinstance(n, ast.Name))
    return any(n.id in REGISTERING for n in names)


def assigned(node: ast.Assign | ast.AnnAssign) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)]


def defined(body: Sequence[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    """The public functions, classes and constants that a module or a class defines."""
    for node in body:
        names: list[str] = []
        if isinstance(node, Definition):
            names = [] if is_registered(node) else [node.name]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            names = assigned(node)
        yield from ((each, node) for each in names if not each.startswith("_"))


@cache
def reads(path: Path) -> dict[str, list[ast.expr]]:
    """Where a module reads each name, alone or as an attribute."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            found.setdefault(node.id if isinstance(node, ast.Name) else node.attr, []).append(node)
    return found


@cache
def imports(path: Path) -> dict[str, set[str]]:
    """The names that a module imports from the package, each with the names it gives them."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("trimtab"):
            for alias in node.names:
                found.setdefault(alias.name, set()).add(alias.asname or alias.name)
    return found


def is_read(own: str, path: Path, definition: ast.stmt, *, of_class: bool) -> bool:
    """Whether the package reads a name outside its definition: in its own module, in one that imports it, or as an
    attribute. To export it again is not to read it."""
    inside = {id(node) for node in ast.walk(definition)}
    for module in MODULES:
        names = {own} if module == path else imports(module).get(own, set())
        nodes = [node for each in names for node in reads(module).get(each, ()) if isinstance(node, ast.Name)]
        attributes = [node for node in reads(module).get(own, ()) if isinstance(node, ast.Attribute)]
        if any(id(node) not in inside for node in (attributes if of_class else [*nodes, *attributes])):
            return True
    return False


def unread(path: Path) -> Iterator[str]:
    """The public names of a module, and the methods of its classes, that the package never reads."""
    for own, node in defined(tree(path).body):
        if not is_read(own, path, node, of_class=False):
            yield own
        if isinstance(node, ast.ClassDef):
            methods = [each for each in node.body if isinstance(each, Definition)]
            yield from (f"{own}.{m}" for m, each in defined(methods) if not is_read(m, path, each, of_class=True))


def test_no_public_name_is_for_tests_only() -> None:
    """By name: a method counts as read where a method of that name is, of any object."""
    found = [f"{path.relative_to(PACKAGE).as_posix()} {own}" for path in MODULES for own in unread(path)]
    assert [each for each in found if each not in READ_FROM_OUTSIDE] == []


# -- what the pages name -----------------------------------------------------------------------------------------

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*.md"))]
CODE = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"[\w.-]*/[\w./-]*\w/?|[\w-]+\.(?:py|sh)")  # a path, or the name of a program
PLACES = ("proxy/", "tests/", "config/", "docs/", "helm/", ".ci/", ".github/")


def named(page: Path, pattern: re.Pattern[str]) -> list[str]:
    """What a page names in `code` marks, as far as it has the form of `pattern` from its beginning."""
    found = (pattern.match(text.removeprefix("../")) for text in CODE.findall(page.read_text()))
    return sorted({match.group() for match in found if match})


@cache
def ends_of_paths() -> frozenset[str]:
    """Each program of the house by every end of its path: `plan/replay.py`, `replay.py`."""
    programs = [p for place in PLACES for kind in ("*.py", "*.sh") for p in (ROOT / place).rglob(kind)]
    parts = [path.relative_to(ROOT).parts for path in programs]
    return frozenset("/".join(each[i:]) for each in parts for i in range(len(each)))


def test_every_file_that_a_page_names_is_there() -> None:
    files = [(page.name, path) for page in PAGES for path in named(page, FILE)]
    ours = [(page, path) for page, path in files if path.startswith(PLACES) or path.endswith((".py", ".sh"))]
    assert len(ours) > 50
    assert [found for found in ours if not (ROOT / found[1]).exists() and found[1] not in ends_of_paths()] == []


def test_every_module_that_the_architecture_names_is_there() -> None:
    layers = [p.name for p in PACKAGE.iterdir() if p.is_dir()]
    dotted = named(ROOT / "docs" / "architecture.md", re.compile(rf"(?:{'|'.join(layers)})\.\w+"))
    assert len(dotted) > 5
    paths = [PACKAGE.joinpath(*each.split(".")) for each in dotted]
    assert [name(p) for p in paths if not (p.is_dir() or p.with_suffix(".py").exists())] == []


def test_every_test_that_a_page_names_is_there() -> None:
    one = re.compile(r"(?:[\w/]+/)?(test_\w+\.py)::(test_\w+)")
    names = [one.fullmatch(text) for page in PAGES for text in named(page, one)]
    tests = [(match.group(1), match.group(2)) for match in names if match]
    assert len(tests) > 3
    files = [(path.name, path.read_text()) for path in (ROOT / "tests").rglob("test_*.py")]
    assert [t for t in tests if not any(t[0] == file and f"def {t[1]}" in text for file, text in files)] == []


def test_every_link_of_a_page_leads_to_a_file() -> None:
    link = re.compile(r"\]\((?!https?:|#)([^)#]+)")
    links = [(page, target) for page in PAGES for target in link.findall(page.read_text())]
    assert len(links) > 20
    assert [(page.name, target) for page, target in links if not (page.parent / target).exists()] == []


def test_every_target_of_make_that_a_page_names_is_there_and_in_its_help() -> None:
    targets = set(re.findall(r"^([\w-]+):.*##", (ROOT / "Makefile").read_text(), re.M))
    command = re.compile(r"(?:`|^ {4})make ([a-z][\w-]+)|^make ([a-z][\w-]+) +#", re.M)
    asked = {one or other for page in PAGES for one, other in command.findall(page.read_text())}
    # Alone: a make that runs this test would have its own words in the answer ("make[1]: Entering directory").
    alone = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    help_ = subprocess.run(["make", "help"], cwd=ROOT, env=alone, capture_output=True, text=True, check=True).stdout
    assert {"demo", "test"} <= asked <= targets
    assert {line.split()[0] for line in help_.splitlines()} == targets


# -- what is committed -------------------------------------------------------------------------------------------


@cache
def committed() -> dict[str, str]:
    """Every committed text file, by its path."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("this is no checkout: git does not say what is committed")
    found: dict[str, str] = {}
    for path in listed.stdout.decode().split("\0"):
        if path and (ROOT / path).is_file():
            try:
                found[path] = (ROOT / path).read_text()
            except UnicodeDecodeError:
                continue
    return found


HERE = re.compile(r"(?<![\w.])/(?:work|root|home/\w+)/")  # a path of whoever wrote it
SHARED = re.compile(r"(?<![\w/.-])(?:\.\./)?shared/[a-z_]+(?:/|\b)")
INDEX = re.compile(r"(?:pypi|pythonhosted|npmjs|debian)\.(?:org|com)|index-url|find-links|https?://", re.IGNORECASE)
MARKS = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")


def breaks(pattern: re.Pattern[str], *, but: tuple[str, ...] = ()) -> list[str]:
    """`path:line text` of each match outside the paths that begin with one of `but`."""
    return [
        f"{path}:{number} {line.strip()[:100]}"
        for path, text in committed().items()
        if not path.startswith(but or ("\0",)) and pattern.search(text)
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]


def test_no_path_of_the_machine_it_was_written_on_is_committed() -> None:
    data = ("tests/data/", "proxy/trimtab/data/", "tests/cases/", "tests/test_house.py")
    assert breaks(HERE, but=data) == []


def test_inputs_that_lie_beside_the_checkout_are_named_in_tests_and_docs_only() -> None:
    assert breaks(SHARED, but=("tests/", "docs/", "proxy/trimtab/data/", "helm/")) == []


def test_lock_files_name_no_host() -> None:
    locks = {path: text for path, text in committed().items() if path.endswith(".lock")}
    assert len(locks) >= 4
    assert [path for path, text in locks.items() if INDEX.search(text)] == []
    assert not [path for path in committed() if Path(path).name in ("uv.lock", "pylock.toml")]


def test_nothing_is_left_for_later() -> None:
    data = ("tests/data/", "proxy/trimtab/data/", "requirements", "tests/fuzz/", "tests/cases/")
    assert breaks(MARKS, but=data) == []
