"""What a model takes, in tokens, and which source states it: docs/limits.md."""

from trimtab.limits.budget import Budget, lowered_max_tokens, usable, widest
from trimtab.limits.discovery import Fetch
from trimtab.limits.events import Event, Notify
from trimtab.limits.lessons import ANYONE, Caller
from trimtab.limits.limit import DEFAULT, Limit
from trimtab.limits.limits import Limits
from trimtab.limits.refresh import refresh_table
from trimtab.limits.settings import LimitsSettings, ModelSettings, Prices, from_environment
from trimtab.limits.table import Entry, Table

__all__ = [
    "ANYONE",
    "DEFAULT",
    "Budget",
    "Caller",
    "Entry",
    "Event",
    "Fetch",
    "Limit",
    "Limits",
    "LimitsSettings",
    "ModelSettings",
    "Notify",
    "Prices",
    "Table",
    "from_environment",
    "lowered_max_tokens",
    "refresh_table",
    "usable",
    "widest",
]
