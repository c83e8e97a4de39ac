"""What a model takes: configured, from the environment, discovered, bundled, default, learned; and how far
our estimate is from what the model counts. See docs/limits.md and docs/calibration.md.
"""

from proxy.limits.budget import Budget, lowered_max_tokens, usable, widest
from proxy.limits.discovery import Fetch
from proxy.limits.environment import from_environment
from proxy.limits.events import Event, Notify
from proxy.limits.limit import DEFAULT, Limit
from proxy.limits.limits import Limits, Pair, Snapshot
from proxy.limits.refresh import refresh_table
from proxy.limits.settings import LimitsSettings, ModelSettings, Prices
from proxy.limits.store import MemoryStore, Store
from proxy.limits.table import Origin, Table

__all__ = [
    "DEFAULT",
    "Budget",
    "Event",
    "Fetch",
    "Limit",
    "Limits",
    "LimitsSettings",
    "MemoryStore",
    "ModelSettings",
    "Notify",
    "Origin",
    "Pair",
    "Prices",
    "Snapshot",
    "Store",
    "Table",
    "from_environment",
    "lowered_max_tokens",
    "refresh_table",
    "usable",
    "widest",
]
