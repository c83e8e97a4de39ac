"""What each model takes, asked on every request: a dictionary hit once an answer is known.

Sources in order: configured, environment, discovered, bundled, default; a limit learned from an overflow
lowers all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from proxy.limits.claims import Claim, from_settings, from_table
from proxy.limits.limit import Limit
from proxy.limits.resolve import resolve
from proxy.limits.settings import ModelSettings, settings_for
from proxy.limits.table import Table

_MOST_KNOWN = 4_096  # (upstream, model) pairs whose answer is kept: names come from clients


class Limits:
    """The limits of every (upstream, model) pair. One per process."""

    def __init__(
        self,
        models: Mapping[str, ModelSettings] | None = None,
        *,
        environment: ModelSettings | None = None,
        table: Table | None = None,
    ) -> None:
        self._models = dict(models or {})
        self._environment = environment or ModelSettings()
        self._table = table
        self._known: dict[tuple[str, str], Limit] = {}

    @property
    def table(self) -> Table:
        """The bundled table, read when first asked for."""
        if self._table is None:
            self._table = Table.load()
        return self._table

    def known(self, upstream: str, model: str) -> Limit:
        """What is known now, without waiting for anything. Quick."""
        key = (upstream, model)
        limit = self._known.get(key)
        if limit is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            limit = self._known[key] = resolve(list(self._claims(upstream, model)))
        return limit

    def _claims(self, upstream: str, model: str) -> Iterator[Claim]:
        if configured := settings_for(self._models, model):
            key, settings = configured
            yield from_settings("configured", f'models."{key}"', settings)
        yield from_settings("environment", "LLM_CONTEXT_SIZE", self._environment)
        if found := self.table.find(model, upstream):
            yield from_table(found)
