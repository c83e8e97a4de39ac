"""The files that ship: in a checkout, and in a wheel that is installed where there is no checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from trimtab import __version__
from trimtab.context.policy import HINTS
from trimtab.resources import resource
from trimtab.settings import load
from trimtab.summaries.prompts import load_prompts

ROOT = Path(__file__).parents[1]
UV = (sys.executable, "-m", "uv")
SHIPPED = ("trimtab.toml", "model_limits.json", "demo.json.gz", "demo.NOTICE.txt", *(f"prompts/{h}.md" for h in HINTS))


@pytest.mark.parametrize("name", SHIPPED)
def test_a_checkout_has_them(name: str) -> None:
    assert resource(name).stat().st_size > 0


def test_what_operators_edit_stands_in_config_and_is_what_is_used() -> None:
    assert resource("trimtab.toml") == ROOT / "config" / "trimtab.toml"
    assert resource("prompts/general.md") == ROOT / "config" / "prompts" / "general.md"
    assert load_prompts()["general"].text == (ROOT / "config" / "prompts" / "general.md").read_text().strip()


def test_a_file_that_is_missing_is_named_with_what_to_do() -> None:
    with pytest.raises(FileNotFoundError, match=r"prompts/nope\.md is missing.*reinstall trimtab"):
        resource("prompts/nope.md")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of this checkout. Needs the build backend from the package index, as any user's build does."""
    out = tmp_path_factory.mktemp("wheel")
    built = subprocess.run(
        [*UV, "build", "--wheel", "--out-dir", out, ROOT], capture_output=True, text=True, check=False, cwd=out
    )
    assert built.returncode == 0, built.stderr
    (found,) = out.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment with the wheel alone in it."""
    home = tmp_path_factory.mktemp("installed") / "venv"
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    subprocess.run([*UV, "pip", "install", "-q", "--no-deps", "--python", python, wheel], check=True)
    return home / "bin"


def run(installed: Path, *arguments: str) -> str:
    """A command of the installed wheel, away from the checkout. What it depends on is lent by this environment."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TRIMTAB_", "LLM_", "PYTHON"))}
    lent = {**kept, "PYTHONPATH": sysconfig.get_path("purelib")}
    done = subprocess.run(
        [installed / arguments[0], *arguments[1:]], capture_output=True, text=True, env=lent, cwd=installed, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_wheel_holds_them_all_and_nothing_that_is_ours_alone(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {f"trimtab/data/{name}" for name in SHIPPED} <= set(names)
    assert {"trimtab/py.typed", f"trimtab-{__version__}.dist-info/licenses/LICENSE"} <= set(names)
    assert len(names) == len(set(names))
    assert {name.split("/")[0] for name in names} == {"trimtab", f"trimtab-{__version__}.dist-info"}


@pytest.mark.slow
def test_an_installed_wheel_finds_them_away_from_the_checkout(installed: Path) -> None:
    code = "import sys; from trimtab.resources import resource; [print(resource(n)) for n in sys.argv[1:]]"
    found = run(installed, "python", "-c", code, *SHIPPED).split()
    assert len(found) == len(SHIPPED)
    assert all(Path(path).is_relative_to(installed.parent) for path in found)


@pytest.mark.slow
def test_an_installed_command_works_with_them(installed: Path) -> None:
    assert __version__ in run(installed, "trimtab", "--version")
    assert "128,000" in run(installed, "trimtab", "models", "gpt-4o")
    code = (
        "from trimtab.resources import resource as r; from trimtab.settings import load;"
        "print(load(r('trimtab.toml'), {}))"
    )
    assert run(installed, "python", "-c", code).strip() == repr(load(resource("trimtab.toml"), {}))
