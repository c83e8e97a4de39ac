"""The results as people read them: ratios against their aims first, then the figures behind them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

Results = Mapping[str, Any]


class Aim(NamedTuple):
    """One thing the run must show. `most`: the ratio may be no larger; otherwise no smaller."""

    what: str
    ratio: float | None
    bound: float
    most: bool
    unit: str = "x"

    @property
    def met(self) -> bool | None:
        if self.ratio is None:
            return None
        return self.ratio <= self.bound if self.most else self.ratio >= self.bound


def aims(results: Results) -> Iterator[Aim]:
    """All aims, with what this run measured; None where it did not."""
    for size, least in (("2 KB", 0.65), ("100 KB", 0.8), ("1 MB", 0.8), ("100K tokens, shaped", 0.45)):
        rate = _get(results, "speed", size, "trimtab", "of_floor")
        yield Aim(f"requests/s of the floor's, {size}", rate, least, most=False)
    for size, least in (("2 KB", 0.7), ("100 KB", 0.6), ("1 MB", 0.6)):
        yield Aim(f"requests/s of the bare relay's, {size}", _times(results, size, "bare"), least, most=False)
    for case, bound in (("100 KB", 1.5), ("100K tokens, shaped", 1.8), ("100K tokens, shaped, cold", 6.0)):
        yield Aim(f"added latency of the floor's, {case}", _added(results, case, "trimtab", "floor"), bound, most=True)
    yield Aim("planning one cycle later, of cold", _get(results, "core", "one cycle later / cold"), 0.03, most=True)
    yield Aim("cost a message, ten times the messages", _get(results, "core", "growth"), 2.0, most=True)
    for dialect in ("responses", "messages"):
        for case in ("shaped, one cycle later", "shaped, cold"):
            yield Aim(f"{dialect}: time of chat's, {case}", _of_chat(results, case, dialect), 1.3, most=True)
    for case, bound in (("100 KB", 1.5), ("100K tokens, shaped", 3.0), ("100K tokens, shaped, cold", 6.0)):
        yield Aim(
            f"added latency of the bare relay's, {case}", _added(results, case, "trimtab", "bare"), bound, most=True
        )
    chunk = _get(results, "streams", "trimtab", "of_floor")
    yield Aim("CPU a chunk of the floor's", chunk, 1.2, most=True)
    for size, portkey in (("2 KB", 10), ("100 KB", 16)):
        yield Aim(f"requests/s of LiteLLM's, {size}", _times(results, size, "litellm"), 38, most=False)
        yield Aim(
            f"LiteLLM's added latency of ours, {size}", _added(results, size, "litellm", "trimtab"), 12, most=False
        )
        yield Aim(f"requests/s of Portkey's, {size}", _times(results, size, "portkey"), portkey, most=False)
    heavy = "100K tokens, shaped"
    yield Aim(
        "headroom's added latency of ours, 100K tokens", _added(results, heavy, "headroom", "trimtab"), 80, most=False
    )
    resting = _get(results, "memory", "trimtab", "before")
    yield Aim("memory at rest", resting and resting / 1e6, 90, most=True, unit="MB")


def _get(results: Results, *path: str) -> Any:
    found: Any = results
    for name in path:
        if not isinstance(found, Mapping) or name not in found:
            return None
        found = found[name]
    return found


def _added(results: Results, case: str, mine: str, theirs: str) -> float | None:
    a, b = (_get(results, "latency", case, name, "p50") for name in (mine, theirs))
    return a / b if a and b and b > 0 else None


def _of_chat(results: Results, case: str, dialect: str) -> float | None:
    times = _get(results, "core", f"{case}, ms")
    return times[dialect] / times["chat"] if times else None


def _times(results: Results, case: str, peer: str) -> float | None:
    a, b = (_get(results, "speed", case, name, "requests_a_second") for name in ("trimtab", peer))
    return a / b if a and b else None


def render(results: Results) -> str:
    """Everything, as text."""
    return "\n".join([*_aims(results), *_latency(results), *_speed(results), *_rest(results), *_core(results)])


def _aims(results: Results) -> Iterator[str]:
    yield f"{'':52}{'measured':>10}{'aim':>12}"
    for aim in aims(results):
        if aim.ratio is not None:
            sign = "<=" if aim.most else ">="
            word = "" if aim.met else "   missed"
            yield f"{aim.what:52}{aim.ratio:8.2f} {aim.unit:2}{sign:>5} {aim.bound:g}{word}"


def _latency(results: Results) -> Iterator[str]:
    for case, ways in (results.get("latency") or {}).items():
        yield f"\nadded latency, ms, one at a time: {case}"
        yield f"  {'':10}{'of floor':>10}{'p50':>10}{'p99':>10}{'in all':>10}"
        for name, got in ways.items():
            of = _added(results, case, name, "floor")
            yield f"  {name:10}{_x(of)}{got['p50']:10.2f}{got['p99']:10.2f}{got['total_p50']:10.2f}"


def _speed(results: Results) -> Iterator[str]:
    for case, ways in (results.get("speed") or {}).items():
        yield f"\nrequests/s, 16 at once: {case}"
        yield f"  {'':10}{'of floor':>10}{'CPU of it':>10}{'req/s':>10}{'CPU, us':>10}"
        for name, got in ways.items():
            errors = f"   {got['errors']} errors" if got["errors"] else ""
            yield (
                f"  {name:10}{_x(got['of_floor'])}{_x(got['cpu_of_floor'])}"
                f"{got['requests_a_second']:10.0f}{got['cpu_us_a_request']:10.0f}{errors}"
            )


def _rest(results: Results) -> Iterator[str]:
    if streams := results.get("streams"):
        yield "\n64 streams, 50 events a second each"
        yield f"  {'':10}{'of floor':>10}{'CPU, us':>10}{'chunks/s':>10}"
        for name, got in streams.items():
            broken = f"   {got['broken']} broken" if got["broken"] else ""
            yield f"  {name:10}{_x(got['of_floor'])}{got['cpu_us_a_chunk']:10.1f}{got['chunks_a_second']:10.0f}{broken}"
    if held := results.get("memory"):
        yield "\nresident MB: at rest, under 200 requests of 1 MB held at once, some seconds after"
        for name, got in held.items():
            yield f"  {name:10}{got['before'] / 1e6:10.0f}{got['most'] / 1e6:10.0f}{got['after'] / 1e6:10.0f}"
    if starts := results.get("start_s"):
        yield "\nseconds to the first answer: " + ", ".join(f"{name} {s:.2f}" for name, s in starts.items())
    for name, why in (results.get("skipped") or {}).items():
        yield f"{name}: skipped, {why}"


def _core(results: Results) -> Iterator[str]:
    if core := results.get("core"):
        yield "\nthe core, by itself"
        for name, value in core.items():
            if isinstance(value, Mapping):
                yield f"  {name}: " + ", ".join(f"{k} {v:g}" for k, v in value.items())
            else:
                yield f"  {name:44}{value:10.3f}"


def _x(ratio: float | None) -> str:
    return f"{ratio:8.2f} x" if ratio is not None else f"{'':10}"
