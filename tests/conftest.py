"""What every test may use: the event loop of the async tests, and the folder of shared inputs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Where a failure must say something about the change, examples are the same in every run; at a desk they are new.
# How long one took says more of the machine's other work than of the law it is tried on.
settings.register_profile("desk", deadline=None)
settings.register_profile("ci", derandomize=True, print_blob=True, deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "desk")

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder `shared` beside the checkout ; a test that needs it is skipped without it."""
    if not SHARED.is_dir():
        pytest.skip("the folder `shared` (cases, corpus, arena) does not lie beside this checkout")
    return SHARED
