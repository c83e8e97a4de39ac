"""The bounded numbers that settings are made of, each defined once.

A type names the unit and carries the bound. msgspec refuses a value outside it and names the key. Every table of the
configuration takes its numbers from here, so one word has one bound in all of them. A bound that only one key has
(a port, a number of retries) stays beside that key.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

Count = Annotated[int, Meta(ge=1)]
"""How many of something: 1 or more."""

CountOrZero = Annotated[int, Meta(ge=0)]
"""How many of something: 0 or more."""

Tokens = Annotated[int, Meta(ge=1)]
"""Tokens: 1 or more."""

Share = Annotated[float, Meta(ge=0, le=1)]
"""A part of a whole: from 0 to 1."""

PositiveShare = Annotated[float, Meta(gt=0, le=1)]
"""A part of a whole: above 0, up to 1."""

Seconds = Annotated[float, Meta(ge=0)]
"""Seconds: 0 or more."""

PositiveSeconds = Annotated[float, Meta(gt=0)]
"""Seconds: above 0, where 0 would turn the feature off by accident."""

Price = Annotated[float, Meta(ge=0)]
"""USD per million tokens: 0 or more."""
