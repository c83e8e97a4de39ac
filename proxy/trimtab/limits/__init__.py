"""What a model takes: configured, from the environment, discovered, bundled, default, learned; and how far
our estimate is from what the model counts. See docs/limits.md and docs/calibration.md.
"""

from trimtab.limits.budget import Budget, lowered_max_tokens, usable, widest
from trimtab.limits.discovery import Fetch
from trimtab.limits.environment import from_environment
from trimtab.limits.events import Event, Notify
from trimtab.limits.limit import DEFAULT, Limit
from trimtab.limits.limits import Limits, Pair, Snapshot
from trimtab.limits.refresh import refresh_table
from trimtab.limits.settings import LimitsSettings, ModelSettings, Prices
from trimtab.limits.store import MemoryStore, Store
from trimtab.limits.table import Origin, Table

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
