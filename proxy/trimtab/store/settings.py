"""The table `[redis]`. Left out, the store is in this process."""

from __future__ import annotations

import msgspec

from trimtab.units import Count


class RedisSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where summaries and learned figures are shared. Needs Redis 6.2 or newer (GETEX), or Valkey."""

    url: str  # redis://, rediss://, redis+sentinel://host:port,host:port/name, redis+cluster://
    ca_file: str | None = None  # of a private CA, in PEM, trusted beside the system's own; needs a rediss:// address
    timeout_ms: Count = 50  # an answer later than this is a miss
    max_connections: Count = 32  # calls in flight, per process
    max_value_kb: Count = 256  # a larger value is not stored, and not believed when read

    def __repr__(self) -> str:
        return f"RedisSettings(url='{self.url.partition('://')[0]}://…')"  # the address may hold a password
