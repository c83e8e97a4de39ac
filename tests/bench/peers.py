"""Others who stand in the same place, each installed into an environment of its own and started as its manual says.

Asked for with PEERS=1. What cannot be installed or started is skipped, with its reason in the table. The cache
directory is `$TRIMTAB_BENCH_CACHE`, by default `~/.cache/trimtab-bench`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.bench.servers import FITS, SHAPED, Server, Unavailable, free_port, launch

CACHE = Path(os.environ.get("TRIMTAB_BENCH_CACHE", Path.home() / ".cache" / "trimtab-bench"))

_LITELLM = """
model_list:
{models}
litellm_settings:
  telemetry: false
"""
_LITELLM_MODEL = """
  - model_name: {name}
    litellm_params: {{model: openai/{name}, api_base: "{origin}/v1", api_key: sk-bench}}
"""


def start_litellm(origin: str, at: Path) -> Server:
    """LiteLLM's proxy, one worker."""
    binary = _venv("litellm", "litellm[proxy]") / "litellm"
    config, port = at / "litellm.yaml", free_port()
    models = "".join(_LITELLM_MODEL.format(name=name, origin=origin) for name in (FITS, SHAPED))
    config.write_text(_LITELLM.format(models=models))
    command = [str(binary), "--config", str(config), "--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"]
    env = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true"}
    return launch("litellm", command, port, at / "litellm.log", env=env, patience_s=120)


def start_portkey(origin: str, at: Path) -> Server:
    """Portkey's gateway."""
    entry = _node("portkey", "@portkey-ai/gateway") / "@portkey-ai" / "gateway" / "build" / "start-server.js"
    port = free_port()
    command = ["node", str(entry), f"--port={port}", "--headless"]
    env = {"TRUSTED_CUSTOM_HOSTS": "127.0.0.1,localhost"}
    server = launch("portkey", command, port, at / "portkey.log", env=env, patience_s=60)
    server.headers = (("x-portkey-provider", "openai"), ("x-portkey-custom-host", f"{origin}/v1"))
    return server


def start_headroom(origin: str, at: Path) -> Server:
    """headroom's proxy with its own defaults, but for its limit of requests a minute and its cache of answers."""
    binary = _venv("headroom", "headroom-ai[proxy]") / "headroom"
    port = free_port()
    command = [str(binary), "proxy", "--port", str(port), "--no-rate-limit", "--no-cache"]
    command += ["--openai-api-url", f"{origin}/v1"]
    env = {"HOME": str(at), "HEADROOM_TELEMETRY": "off", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    return launch("headroom", command, port, at / "headroom.log", env=env, patience_s=180)


STARTS: tuple[Callable[[str, Path], Server], ...] = (start_litellm, start_portkey, start_headroom)


def _venv(name: str, requirement: str) -> Path:
    """The bin directory of a virtual environment with one thing in it."""
    at = CACHE / name
    if not (at / "bin" / name).exists():
        _run([sys.executable, "-m", "venv", str(at)])
        _run([str(at / "bin" / "python"), "-m", "pip", "install", "-q", requirement])
    return at / "bin"


def _node(name: str, package: str) -> Path:
    if shutil.which("npm") is None:
        raise Unavailable("npm is not installed")
    at = CACHE / name
    if not (at / "node_modules" / package).exists():
        at.mkdir(parents=True, exist_ok=True)
        _run(["npm", "install", "--silent", "--prefix", str(at), package])
    return at / "node_modules"


def _run(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=900)
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(f"{command[0]} failed: {type(error).__name__}") from error
