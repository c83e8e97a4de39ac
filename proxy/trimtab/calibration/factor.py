"""The factor of one (upstream, model): tokens the upstream counts, divided by tokens we estimate. Pure.

Each answer gives a pair (estimated, counted). What matters most is whether the pairs come from one growing
conversation or from many at once:

- *Coherent*: neighbouring ratios are close. The latest ratio predicts the next request best; follow it.
- *Mixed*: neighbouring ratios differ. No single factor is right, and following would move every conversation's plan
  at every request. Use a high quantile of the recent ratios, and hold it.

The factor that is *applied* is a power of GRID. It moves only when the target leaves a band around it: up at once (an
estimate that is too low gets requests refused), down when it is clearly too high. Between two moves plans do not
change, and replicas that saw nearly the same pairs apply exactly the same factor. Steps are 2.5 %, not 5 %: with a
margin they keep the same median error with a quarter of the refusals (docs/calibration.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from operator import itemgetter

import msgspec

GRID = 1.025
_STEP = math.log(GRID)
_log_ratio: Callable[[tuple[float, int]], float] = itemgetter(0)  # of a pair that was seen,
_size: Callable[[tuple[float, int]], int] = itemgetter(1)  # and its estimated tokens
LEAST_FACTOR, MOST_FACTOR = 0.5, 4.0  # the range that is applied; real tokenizers stay well inside it
LEAST_RATIO, MOST_RATIO = 0.2, 10.0  # a ratio out of this range is not believed
LEAST_TOKENS = 64  # estimated; of a smaller request the chat template is the larger part
MOST_TOKENS = 100_000_000  # a larger count is not believed
SMALL = 8  # a request below an eighth of the largest recent one says little about those near the window

WINDOW = 48  # recent pairs that are kept
SETTLED = 5  # pairs after which a factor counts as known
MARGIN = 0.015  # log, added before rounding up: too low costs a refusal, too high costs a little room
FOLLOW = 0.8  # while coherent: the weight of a newest ratio that is lower; a higher one counts in full
COHERENT = 0.03  # coherent: three of four steps between neighbouring log ratios are at most this,
NEIGHBOURS = 16  # among the last 16 steps,
CALM_AGAIN = 8  # or all of the last 8 are,
TELLING = 10  # or there are at most 10 steps yet
QUANTILE = 0.75  # of the recent ratios, while mixed
DOUBTFUL = 0.3  # a larger jump of the log ratio must be seen twice


class Band(msgspec.Struct, frozen=True):
    """How far (log) the target may lie above or below the applied factor, and for how many pairs it may lie below."""

    above: float
    below: float
    patience: int


CALM = Band(above=0.01, below=0.04, patience=1)
MIXED = Band(above=0.05, below=0.08, patience=8)


class FactorState(msgspec.Struct, frozen=True):
    """What was seen of one (upstream, model), and the factor that is applied. JSON of it is shared by replicas."""

    seen: tuple[tuple[float, int], ...]  # (log ratio, estimated tokens), the newest last
    follow: float  # log: the target while coherent
    step: int  # the applied factor is GRID to this power
    count: int = 1  # pairs seen
    moves: int = 0  # how often the factor moved
    above_for: int = 0  # pairs in a row for which the factor was too high
    doubt: float | None = None  # a log ratio so far off that it must be seen twice

    @property
    def factor(self) -> float:
        """Tokens per estimated token, as applied."""
        return GRID**self.step

    @property
    def settled(self) -> bool:
        """True when enough pairs were seen to call the factor known."""
        return self.count >= SETTLED

    @property
    def coherent(self) -> bool:
        """True when the pairs look like one growing conversation."""
        return _coherent(self.seen)

    @property
    def largest(self) -> int:
        """The largest recent request, in estimated tokens."""
        return max(map(_size, self.seen))


def believed(estimated: int, actual: object) -> int | None:
    """`actual`, an upstream's count, where it can be learned from; None where it is missing, not a whole number, not
    positive, or absurd. `estimated` are tokens, without factor."""
    if type(actual) is not int or not 0 < actual <= MOST_TOKENS:  # True is no count
        return None
    return actual if estimated > 0 and LEAST_RATIO <= actual / estimated <= MOST_RATIO else None


def observe(state: FactorState | None, estimated: int, actual: int, *, refused: bool = False) -> FactorState | None:
    """The state after one more believed pair, in tokens; the same state where the request is too small to say much.
    `refused`: the upstream counted the request and refused it as too long. The estimate was too low where it matters,
    so the factor goes up to the counted ratio in any case."""
    if estimated < LEAST_TOKENS:
        return state
    # The newest pair was large enough, so what is as large needs no comparison with all of them.
    if state is not None and estimated < state.seen[-1][1] and estimated * SMALL < state.largest:
        return state
    ratio = math.log(actual / estimated)
    if state is None:
        return FactorState(((ratio, estimated),), ratio, _step(ratio + MARGIN))
    jump = ratio - state.follow
    if state.settled and abs(jump) > DOUBTFUL and not _confirms(ratio, state.doubt):
        return msgspec.structs.replace(state, doubt=ratio)
    seen = (*state.seen, (ratio, estimated))[-WINDOW:]
    follow = ratio if jump > 0 or state.doubt is not None else state.follow + FOLLOW * jump
    fed = msgspec.structs.replace(state, seen=seen, follow=follow, count=state.count + 1, doubt=None)
    return _moved(fed, ratio + MARGIN) if refused and ratio > state.step * _STEP else _applied(fed)


def _applied(state: FactorState) -> FactorState:
    """The state with its factor moved, if the target has left the band."""
    coherent = state.coherent
    band = CALM if coherent else MIXED
    target = (state.follow if coherent else _quantile(state.seen)) + MARGIN
    distance = target - state.step * _STEP
    if distance > band.above:
        return _moved(state, target)
    if distance >= -band.below:
        return msgspec.structs.replace(state, above_for=0) if state.above_for else state
    waited = state.above_for + 1
    if waited >= band.patience:
        return _moved(state, target)
    return msgspec.structs.replace(state, above_for=waited)


def _moved(state: FactorState, target: float) -> FactorState:
    step = _step(target)
    return msgspec.structs.replace(state, step=step, moves=state.moves + (step != state.step), above_for=0)


def _coherent(seen: tuple[tuple[float, int], ...]) -> bool:
    recent = list(map(_log_ratio, seen[-CALM_AGAIN - 1 :]))
    if len(seen) <= TELLING or max(recent) - min(recent) <= COHERENT or max(_steps(recent)) <= COHERENT:
        return True
    steps = sorted(_steps(list(map(_log_ratio, seen[-NEIGHBOURS - 1 :]))))
    return steps[len(steps) * 3 // 4] <= COHERENT


def _steps(ratios: list[float]) -> list[float]:
    """The distances between neighbouring log ratios."""
    return [abs(after - before) for before, after in pairwise(ratios)]


def _quantile(seen: tuple[tuple[float, int], ...]) -> float:
    ratios = sorted(map(_log_ratio, seen))
    return ratios[min(len(ratios) - 1, int(QUANTILE * len(ratios)))]


def _confirms(ratio: float, doubt: float | None) -> bool:
    return doubt is not None and abs(ratio - doubt) <= DOUBTFUL


def _step(target: float) -> int:
    """The first step of the grid at or above `target` (log), within the applied range. Rounding up is the safety."""
    within = min(max(target, math.log(LEAST_FACTOR)), math.log(MOST_FACTOR))
    return math.ceil(within / _STEP - 1e-9)
