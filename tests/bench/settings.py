"""What the policy's settings do, through the running proxy: a row of docs/policy.md for each setting, from the arena
with `--support`, in an 8K and in a 32K window. No summary model.

    . ENV/env && .venv/bin/python -m tests.bench.settings "" "keep_share=0.35" "target=0.6 extract_share=0.5"

Each argument is one row: the settings of `[shaping]` that differ from the defaults. ENV as made by arena/setup.sh.
Below each row a line says what must be 0, or 1, in all of them.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from tests.bench.compaction import arena
from tests.support.scripted import closed_port
from tests.support.served import serving

WINDOWS = {
    "8K": ["--window", "8192", "--max-output", "1024", "--steps", "60"],
    "32K": ["--window", "32768", "--steps", "200"],
}
SHOWN = ("support", "gain", "cost", "cached")
RULES = ("refused", "errors", "invalid", "lost", "identical")


async def measured(setting: str, options: list[str]) -> dict[str, Any]:
    """The arena's line for all recordings, with these settings."""
    port = closed_port()
    toml = "\n".join(["[shaping]", *setting.split()]) + "\n"
    async with serving(f"http://127.0.0.1:{port}/v1", toml) as proxy:
        return await arena(proxy.base_url, port, setting or "defaults", [*options, "--support"])


async def rows(settings: list[str]) -> None:
    print("|", " | ".join(["", *[f"{window}: {name}" for window in WINDOWS for name in SHOWN]]), "|")
    print("|---" * (1 + len(WINDOWS) * len(SHOWN)) + "|")
    for setting in settings:
        found = [await measured(setting, options) for options in WINDOWS.values()]
        figures = [str(f[name]) for f in found for name in SHOWN]
        print("|", " | ".join([setting or "defaults", *figures]), "|", flush=True)
        print("  ", *[" ".join(f"{name}={f[name]}" for name in RULES) for f in found], sep="   ")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("settings", nargs="*", default=[""])
    asyncio.run(rows(parser.parse_args().settings))


if __name__ == "__main__":
    main()
