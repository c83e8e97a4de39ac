"""The configuration file as one frozen value. Each part declares its own table; this module assembles them.

The file is TOML. `${NAME}` in a string is replaced from the environment. An unknown key, a wrong type or a missing
variable stops the start, with its place and the nearest known name.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, get_args

import msgspec
from msgspec import Meta

from trimtab.context.policy import ShapingSettings
from trimtab.errors import ConfigError
from trimtab.exchange.policies import PROFILES, ProfileSettings
from trimtab.limits import LimitsSettings, ModelSettings
from trimtab.store.settings import RedisSettings
from trimtab.summaries.settings import CompactionSettings
from trimtab.telemetry import TelemetrySettings
from trimtab.units import Count, Seconds
from trimtab.upstream.settings import UpstreamSettings

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class ServerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The table `[server]`."""

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 8080
    max_body_mb: Count = 64  # megabytes of one body, also after decompression; vision requests are large
    max_in_flight_mb: Count | None = None  # megabytes of all bodies in flight; None: by the memory limit (`memory`)
    max_in_flight: Count = 2_000  # requests in flight; above either: 503 with retry-after
    client_keys: tuple[str, ...] = ()  # SHA-256, in hex, of the keys that clients must send
    grace_s: Seconds = 30.0  # how long open streams may take to finish after SIGTERM
    drain_s: Seconds = 2.0  # how long readiness fails before the server stops listening
    keepalive_s: Seconds = 15.0  # between SSE comments to a client that waits; 0 sends none


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The whole configuration."""

    server: ServerSettings = ServerSettings()
    upstreams: tuple[UpstreamSettings, ...] = ()
    models: dict[str, ModelSettings] = {}
    limits: LimitsSettings = LimitsSettings()
    shaping: ShapingSettings = ShapingSettings()
    profiles: dict[str, ProfileSettings] = {}
    compaction: CompactionSettings | None = None
    redis: RedisSettings | None = None
    telemetry: TelemetrySettings = TelemetrySettings()

    @property
    def all_profiles(self) -> dict[str, ProfileSettings]:
        """The built-in profiles and those of the file, which replace built-in ones of the same name."""
        return {**PROFILES, **self.profiles}


def load(path: str | Path | None, environment: Mapping[str, str] = os.environ) -> Settings:
    """Read a configuration file; without a path, the defaults. Raises ConfigError."""
    if path is None:
        return Settings()
    try:
        text = Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"Cannot read {path}: {error}") from error
    try:
        return parse(text, environment)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error.message}") from error


def parse(text: str, environment: Mapping[str, str] = os.environ) -> Settings:
    """Read the text of a configuration. Raises ConfigError."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"Not valid TOML: {error}.") from error
    tables = _expanded(tables, environment, "$")
    try:
        settings = msgspec.convert(tables, Settings)
    except msgspec.ValidationError as error:
        raise ConfigError(_located(_explained(str(error), Settings), tables)) from error
    _checked(settings)
    return settings


def check_exposure(settings: Settings) -> None:
    """Refuse a server through which anyone on the network could use the upstreams' keys. Raises ConfigError."""
    keys = [u.name for u in settings.upstreams if u.api_key or u.headers]
    server = settings.server
    if keys and not server.client_keys and server.host not in _LOOPBACK:
        raise ConfigError(
            f"The server would listen on {server.host}, and anyone who reaches it could use the key of upstream "
            f"{', '.join(keys)}. Set client_keys in [server] (the SHA-256 of each key that clients must send), or "
            "host = '127.0.0.1'."
        )


def _expanded(value: Any, environment: Mapping[str, str], place: str) -> Any:
    if isinstance(value, dict):
        return {key: _expanded(item, environment, f"{place}.{key}") for key, item in value.items()}
    if isinstance(value, list):
        return [_expanded(item, environment, f"{place}[{i}]") for i, item in enumerate(value)]
    return _substituted(value, environment, place) if isinstance(value, str) else value


def _substituted(text: str, environment: Mapping[str, str], place: str) -> str:
    def found(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in environment:
            raise ConfigError(
                f"The environment variable {name} is not set, but {place} uses it. Set it, or remove the line."
            )
        return environment[name]

    return re.sub(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}", found, text)


def _explained(problem: str, kind: Any) -> str:
    """msgspec's message about a value of `kind`; for an unknown key, its place and the nearest known name."""
    match = re.match(r"Object contains unknown field `([^`]*)`(?: - at `(.*)`)?", problem)
    if not match:
        return problem
    key, place = match.group(1), match.group(2) or "$"
    names = _names_at(place, kind)
    near = get_close_matches(key, names, n=1) or sorted(names)[:12]
    return f"Unknown key {key!r} in {place}. Nearest: {', '.join(near)}."


def _names_at(place: str, kind: Any) -> list[str]:
    """The keys of the table at `place`, found by walking the types."""
    for step in re.findall(r"\.(\w+)|\[", place):
        if step and hasattr(kind, "__struct_fields__"):
            kind = {f.name: f.type for f in msgspec.structs.fields(kind)}.get(step, kind)
        elif get_args(kind):
            kind = next((a for a in reversed(get_args(kind)) if hasattr(a, "__struct_fields__")), kind)
        kind = next((a for a in get_args(kind) if hasattr(a, "__struct_fields__")), kind)
    return list(getattr(kind, "__struct_fields__", ()))


def _located(problem: str, tables: Mapping[str, Any]) -> str:
    """The message with the name of the entry, where msgspec only writes `[...]`."""
    match = re.search(r"\$\.(models|profiles)\[\.\.\.\]", problem)
    if not match:
        return problem
    kind: Any = {"models": ModelSettings, "profiles": ProfileSettings}[match.group(1)]
    for name, entry in tables[match.group(1)].items():
        try:
            msgspec.convert(entry, kind)
        except msgspec.ValidationError:
            return problem.replace("[...]", f'."{name}"', 1)
    return problem


def _checked(settings: Settings) -> None:
    names = [u.name for u in settings.upstreams]
    if twice := {n for n in names if names.count(n) > 1}:
        raise ConfigError(f"Two upstreams are named {sorted(twice)[0]!r}. Give each its own name.")
    for key in settings.server.client_keys:
        if not re.fullmatch(r"[0-9a-fA-F]{64}", key):
            raise ConfigError(
                "client_keys in [server] must hold SHA-256 digests in hex. Make one with: printf %s KEY | sha256sum"
            )
    for name, profile in settings.profiles.items():
        try:
            profile.shaped(settings.shaping)
        except msgspec.ValidationError as error:
            table = f'$.profiles."{name}".shaping'
            raise ConfigError(_explained(str(error), ShapingSettings).replace("$", table, 1)) from error
