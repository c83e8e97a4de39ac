"""The configuration file as one frozen value. Each part declares its own table; this module assembles them.

The file is TOML. `${NAME}` in a string is replaced from the environment. Unknown keys, wrong values and missing
variables stop the start, all of them in one error, each with its line and the nearest known name (`validation`).
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from trimtab.context.policy import ShapingSettings
from trimtab.conversations.settings import ConversationsSettings
from trimtab.errors import ConfigError
from trimtab.exchange.policies import PROFILES, ProfileSettings
from trimtab.limits import LimitsSettings, ModelSettings
from trimtab.store.settings import RedisSettings
from trimtab.summaries.settings import CompactionSettings
from trimtab.telemetry import TelemetrySettings
from trimtab.ui.settings import UiSettings
from trimtab.units import Count, PositiveSeconds, Seconds
from trimtab.upstream.settings import UpstreamSettings
from trimtab.validation import Place, Problem, failure, problems

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class ServerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The table `[server]`."""

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 8080
    max_body_mb: Count = 64  # megabytes of one body, also after decompression; vision requests are large
    max_in_flight_mb: Count | None = None  # megabytes of all bodies in flight; None: by the memory limit (`memory`)
    remembered_mb: Count | None = None  # megabytes of numbers about conversations not used lately; None: the same
    max_in_flight: Count = 2_000  # requests in flight; above either: 503 with retry-after
    max_messages: Count = 100_000  # of one chat request; above it: 413
    max_values: Count = 500_000  # entries of all lists of a body; two fifths of one message; else 413
    client_keys: tuple[str, ...] = ()  # SHA-256, in hex, of the keys that clients must send
    allowed_origins: tuple[str, ...] = ()  # of pages in browsers that may call: `https://host`, or `*`
    grace_s: Seconds = 30.0  # how long open streams may take to finish after SIGTERM
    drain_s: Seconds = 2.0  # how long readiness fails before the server stops listening
    keepalive_s: Seconds = 15.0  # between SSE comments to a client that waits; 0 sends none
    idle_timeout_s: PositiveSeconds = 620.0  # a kept-alive connection without a request; above a balancer's own (600)
    metrics_host: str = ""  # address of the metrics' own listener; empty: that of `host`
    metrics_port: Annotated[int, Meta(ge=1, le=65535)] | None = None  # its port; None: metrics are on `port`
    share_port: bool = False  # several processes may listen on `port`; the system spreads new connections over them


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
    conversations: ConversationsSettings | None = None
    telemetry: TelemetrySettings = TelemetrySettings()
    ui: UiSettings = UiSettings()

    @property
    def serves_ui(self) -> bool:
        """Whether the pages under `/ui` are served."""
        return self.ui.served_at(loopback=self.server.host in _LOOPBACK and not self.server.share_port)

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
    except OSError as error:
        raise ConfigError(f"Cannot read {path}: {(error.strerror or str(error)).lower()}.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"Cannot read {path}: it is not UTF-8 at byte {error.start}.") from error
    return parse(text, environment, str(path))


def parse(text: str, environment: Mapping[str, str] = os.environ, name: str = "configuration") -> Settings:
    """Read the text of a configuration, which errors call `name`. Raises ConfigError with every error there is."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(_not_toml(str(error), name)) from error
    found: list[Problem] = []
    tables = _expanded(tables, environment, (), found)
    found += problems(tables, Settings)
    wrong = {problem.place[:1] for problem in found}
    settings = msgspec.convert({key: table for key, table in tables.items() if (key,) not in wrong}, Settings)
    found += _contradictions(settings)
    if found:
        raise failure(found, text, name)
    return settings


def check_exposure(settings: Settings) -> None:
    """Refuse a server through which anyone on the network could use the upstreams' keys, or read its pages. Raises
    ConfigError."""
    keys = [u.name for u in settings.upstreams if u.api_key or u.headers]
    server = settings.server
    if keys and not server.client_keys and server.host not in _LOOPBACK:
        raise ConfigError(
            f"The server would listen on {server.host}, and anyone who reaches it could use the key of upstream "
            f"{', '.join(keys)}. Set client_keys in [server] (the SHA-256 of each key that clients must send), or "
            "host = '127.0.0.1'."
        )
    if settings.serves_ui and not settings.ui.keys and server.host not in _LOOPBACK:
        raise ConfigError(
            f"The server would listen on {server.host}, and show its pages under /ui to anyone who reaches it. Set "
            "keys in [ui] (the SHA-256 of each key that opens them), or leave `enabled` out of it."
        )


def _not_toml(message: str, name: str) -> str:
    """tomllib's message, with its line and column where editors and terminals look for them."""
    at = re.search(r" \(at line (\d+), column (\d+)\)$", message)
    where = f"{name}:{at[1]}:{at[2]}" if at else name
    return f"{where}: not valid TOML: {message[: at.start()] if at else message}."


def _expanded(value: Any, environment: Mapping[str, str], place: Place, found: list[Problem]) -> Any:
    """`value` with variables of the environment replaced; what cannot be is appended to `found`."""
    if isinstance(value, dict):
        return {key: _expanded(item, environment, (*place, key), found) for key, item in value.items()}
    if isinstance(value, list):
        return [_expanded(item, environment, (*place, i), found) for i, item in enumerate(value)]
    return _substituted(value, environment, place, found) if isinstance(value, str) else value


def _substituted(text: str, environment: Mapping[str, str], place: Place, found: list[Problem]) -> str:
    def value_of(match: re.Match[str]) -> str:
        variable = match.group(1)
        if variable not in environment:
            reads = f"reads the environment variable {variable}, which is not set"
            found.append(Problem(place, f"{reads}: set it, or remove the line"))
        return environment.get(variable, match.group())

    if re.search(r"\$\{[^}]*$", text):
        found.append(Problem(place, "has a ${ without its }: write ${NAME}"))
    return re.sub(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}", value_of, text)


def _contradictions(settings: Settings) -> Iterator[Problem]:
    """What is wrong between values that are each right."""
    names = [u.name for u in settings.upstreams]
    for number, name in enumerate(names):
        if name in names[:number]:
            yield Problem(("upstreams", number, "name"), f"is {name!r}, as of an upstream before: give each its own")
    yield from _of_server(settings.server)
    yield from _of_keys(("ui", "keys"), settings.ui.keys)
    if settings.conversations is not None and settings.conversations.store == "redis" and settings.redis is None:
        yield Problem(("conversations", "store"), "is 'redis', which needs the table [redis]: add it, or name a file")
    for name, model in settings.models.items():
        for key in ("max_output_tokens", "max_input_tokens"):
            if model.context_size is not None and (getattr(model, key) or 0) > model.context_size:
                yield Problem(("models", name, key), f"must not be above context_size ({model.context_size})")
    for name, profile in settings.profiles.items():
        yield from problems(profile.shaping, ShapingSettings, ("profiles", name, "shaping"))


def _of_server(server: ServerSettings) -> Iterator[Problem]:
    if server.metrics_host and server.metrics_port is None:
        yield Problem(("server", "metrics_host"), "needs metrics_port: add it")
    for number, origin in enumerate(server.allowed_origins):
        if origin != "*" and not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^/\s]+", origin):
            place = ("server", "allowed_origins", number)
            yield Problem(place, "must be like https://app.example, without a path, or *")
    yield from _of_keys(("server", "client_keys"), server.client_keys)


def _of_keys(place: Place, keys: tuple[str, ...]) -> Iterator[Problem]:
    for number, key in enumerate(keys):
        if not re.fullmatch(r"[0-9a-fA-F]{64}", key):
            how = "make one with: printf %s KEY | sha256sum"
            yield Problem((*place, number), f"must be a SHA-256 digest in hex: {how}")
