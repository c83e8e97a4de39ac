"""A planning or an exchange, begun before a scripted upstream."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from io import StringIO
from typing import Any, TypeVar

import msgspec

from tests.exchange.requests import Given, calling, incoming
from tests.support.scripted import Script, ScriptedUpstream
from trimtab.context.policy import ShapingSettings
from trimtab.exchange.chat import ChatExchange
from trimtab.exchange.decide import Shaping
from trimtab.exchange.decider import Decider
from trimtab.exchange.notes import Notes
from trimtab.exchange.planning import Planning, Services
from trimtab.exchange.policies import PROFILES, Policies
from trimtab.limits import Limits, ModelSettings
from trimtab.telemetry import TelemetrySettings, open_telemetry

SMALL = {"*": ModelSettings(context_size=8_192, max_output_tokens=1_024)}


class PlanFails(Decider):
    """A decider with a bug."""

    def decide(self, *_: Any) -> Shaping:
        raise ZeroDivisionError


class ApplyFails(Decider):
    """A decider whose decisions cannot be applied."""

    def decide(self, *asked: Any) -> Shaping:
        return msgspec.structs.replace(super().decide(*asked), max_tokens="many")  # compared with a number


Made = TypeVar("Made", ChatExchange, Planning)


@contextlib.asynccontextmanager
async def started(
    made: type[Made], *scripts: Script, kind: type[Decider] = Decider, **headers: str
) -> AsyncIterator[tuple[Made, Notes, ScriptedUpstream, StringIO]]:
    """An exchange or a planning before an upstream with these scripts, its notes, and the log."""
    log, notes = StringIO(), Notes("r", "chat")
    async with calling(*scripts) as (calls, _, upstream):
        limits = Limits(SMALL)
        decider = kind(limits, Policies(ShapingSettings(), PROFILES, None))
        services = Services(calls, decider, open_telemetry(TelemetrySettings(), stream=log))
        yield made(services, incoming(**headers), notes), notes, upstream, log
        await limits.aclose()


def body(messages: list[Any], **fields: Any) -> Given:
    return Given(msgspec.json.encode({"model": "m", "messages": messages, **fields}))
