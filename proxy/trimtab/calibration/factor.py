"""How far a model's token counts are from our estimates: one running factor, a pure function of what was seen.

Each response gives a pair (estimated, actual). What matters most is whether the pairs come from one
conversation that grows or from many at once:

- *Coherent*: neighbouring ratios are close. The latest ratio says most about the next request; follow it.
- *Mixed*: neighbours differ as much as strangers. No single factor is right; following would move every
  conversation's plan at every request. Take a high quantile of the recent ratios and hold on to it.

The factor that is *applied* is a power of GRID and moves only when the target leaves a band around it: up at
once (an estimate too low gets requests refused), down when it is clearly too high. Between moves plans stand
still, and two replicas that saw nearly the same apply exactly the same number. Steps are 2.5 %, not 5: with a
margin they keep the same median error with a quarter of the refusals (docs/calibration.md).
"""

from __future__ import annotations

import math
from itertools import pairwise

import msgspec

GRID = 1.025
_STEP = math.log(GRID)
LEAST_FACTOR, MOST_FACTOR = 0.5, 4.0  # what is applied; a quarter or eight times is no tokenizer
LEAST_RATIO, MOST_RATIO = 0.2, 10.0  # what is believed at all
LEAST_TOKENS = 64  # a request so small that the chat template is most of it
MOST_TOKENS = 100_000_000
SMALL = 8  # a request below an eighth of the largest recent one says little about those near the window

WINDOW = 48  # pairs kept
SETTLED = 5  # pairs after which a factor counts as known
MARGIN = 0.015  # log, added before rounding up: too low costs a refusal, too high a little room
FOLLOW = 0.8  # weight of a newest ratio that is lower, while coherent; a higher one counts in full
COHERENT = 0.03  # three of four steps between neighbouring log ratios are no larger,
NEIGHBOURS = 16  # of the last so many;
TELLING = 10  # with fewer steps than this a conversation is taken for one
CALM_AGAIN = 8  # or none of the last few is
QUANTILE = 0.75  # of the recent ratios, while mixed
DOUBTFUL = 0.3  # a jump of the log ratio by more must be seen twice


class Band(msgspec.Struct, frozen=True):
    """How far (log) the target may lie above or below the applied factor, and for how many pairs below."""

    above: float
    below: float
    patience: int


CALM = Band(above=0.01, below=0.04, patience=1)
MIXED = Band(above=0.05, below=0.08, patience=8)


class Calibration(msgspec.Struct, frozen=True):
    """The state of one (upstream, model). `seen`: (log ratio, estimated tokens), the newest last; `step`: the
    applied factor is GRID to this power; `moves` counts its moves; `above_for` the pairs it was too high."""

    seen: tuple[tuple[float, int], ...]
    follow: float
    step: int
    count: int = 1
    moves: int = 0
    above_for: int = 0
    doubt: float | None = None

    @property
    def factor(self) -> float:
        """Tokens per estimated token, as applied."""
        return GRID**self.step

    @property
    def settled(self) -> bool:
        return self.count >= SETTLED

    @property
    def coherent(self) -> bool:
        """Do the pairs look like one conversation that grows?"""
        return _coherent(self.seen)

    @property
    def largest(self) -> int:
        """The largest recent request, in estimated tokens."""
        return max([size for _, size in self.seen])


def believed(estimated: int, actual: object) -> int | None:
    """`actual` where the pair can be learned from, else None: usage may be missing, zero, negative, no number,
    or absurd."""
    if isinstance(actual, bool) or not isinstance(actual, int) or not 0 < actual <= MOST_TOKENS:
        return None
    return actual if estimated > 0 and LEAST_RATIO <= actual / estimated <= MOST_RATIO else None


def observe(state: Calibration | None, estimated: int, actual: int, *, refused: bool = False) -> Calibration | None:
    """The state after one more believed pair, in tokens; the same state where the pair says too little.
    `refused`: the upstream counted the request and found it too long, so the estimate was too low where it
    mattered, and the factor goes up to what was counted whatever else was seen."""
    if estimated < LEAST_TOKENS or (state is not None and estimated * SMALL < state.largest):
        return state
    ratio = math.log(actual / estimated)
    if state is None:
        return Calibration(((ratio, estimated),), ratio, _step(ratio + MARGIN))
    jump = ratio - state.follow
    if state.settled and abs(jump) > DOUBTFUL and not _confirms(ratio, state.doubt):
        return msgspec.structs.replace(state, doubt=ratio)
    seen = (*state.seen, (ratio, estimated))[-WINDOW:]
    follow = ratio if jump > 0 or state.doubt is not None else state.follow + FOLLOW * jump
    heard = msgspec.structs.replace(state, seen=seen, follow=follow, count=state.count + 1, doubt=None)
    return _moved(heard, ratio + MARGIN) if refused and ratio > state.step * _STEP else _applied(heard)


def _applied(state: Calibration) -> Calibration:
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


def _moved(state: Calibration, target: float) -> Calibration:
    step = _step(target)
    return msgspec.structs.replace(state, step=step, moves=state.moves + (step != state.step), above_for=0)


def _coherent(seen: tuple[tuple[float, int], ...]) -> bool:
    if len(seen) <= TELLING or max(_steps(seen[-CALM_AGAIN - 1 :])) <= COHERENT:
        return True
    steps = sorted(_steps(seen[-NEIGHBOURS - 1 :]))
    return steps[len(steps) * 3 // 4] <= COHERENT


def _steps(seen: tuple[tuple[float, int], ...]) -> list[float]:
    """How far neighbouring log ratios are apart."""
    ratios = [ratio for ratio, _ in seen]
    return [abs(after - before) for before, after in pairwise(ratios)]


def _quantile(seen: tuple[tuple[float, int], ...]) -> float:
    ratios = sorted(ratio for ratio, _ in seen)
    return ratios[min(len(ratios) - 1, int(QUANTILE * len(ratios)))]


def _confirms(ratio: float, doubt: float | None) -> bool:
    return doubt is not None and abs(ratio - doubt) <= DOUBTFUL


def _step(target: float) -> int:
    """The first step of the grid at or above `target` (log), within the clamps: rounding up is the safety."""
    within = min(max(target, math.log(LEAST_FACTOR)), math.log(MOST_FACTOR))
    return math.ceil(within / _STEP - 1e-9)
