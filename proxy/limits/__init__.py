"""What a model takes: configured, from the environment, discovered, bundled, default, learned; and how far
our estimate is from what the model counts. See docs/limits.md and docs/calibration.md.
"""

from proxy.limits.budget import Budget, lowered_max_tokens, usable
from proxy.limits.environment import from_environment
from proxy.limits.limit import DEFAULT, Limit
from proxy.limits.limits import Limits
from proxy.limits.settings import LimitsSettings, ModelSettings, Prices
from proxy.limits.table import Table

__all__ = [
    "DEFAULT",
    "Budget",
    "Limit",
    "Limits",
    "LimitsSettings",
    "ModelSettings",
    "Prices",
    "Table",
    "from_environment",
    "lowered_max_tokens",
    "usable",
]
