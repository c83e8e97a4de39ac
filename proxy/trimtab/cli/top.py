"""`trimtab top`: the first page of `/ui` in a terminal. Requests as they happen, totals, health.

It reads the same API as the page, of a proxy that runs here or elsewhere, and holds nothing itself.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterable

    import httpx
    from rich.console import Console, Group
    from rich.table import Table

    from trimtab.ui.shown import ShownExchange, Status

_EVERY_S = 1.0
_TIMEOUT_S = 5.0
_LEAST_ROWS = 3
_OTHER_LINES = 7  # of the screen: totals, health, the head of the table


@click.command()
@click.argument("url", default="http://127.0.0.1:8080")
@click.option("--key", envvar="TRIMTAB_UI_KEY", help="A key of [ui], or set TRIMTAB_UI_KEY.")
@click.option("--once", is_flag=True, help="Print what there is, and end, as into a pipe.")
def top(url: str, key: str | None, once: bool) -> None:
    """Watch a running proxy: requests as they happen, totals, health.

    URL is where the proxy listens; the page /ui of it shows more.

    \b
      trimtab top
      trimtab top http://127.0.0.1:9000 --once
    """
    import httpx
    from rich.live import Live

    from trimtab.cli.terminal import open_console

    if not url.startswith(("http://", "https://")):
        raise click.BadParameter(f"'{url}' must begin with http:// or https://.", param_hint="URL")
    console = open_console()
    headers = {"authorization": f"Bearer {key}"} if key else {}
    base = f"{url.rstrip('/')}/ui/api"
    with httpx.Client(base_url=base, headers=headers, trust_env=False, timeout=_TIMEOUT_S) as api:
        watch = _Watch(api)
        watch.look()
        if once or not console.is_terminal:
            console.print(watch.drawn(console))
            return
        try:
            with Live(watch.drawn(console), console=console, screen=True, auto_refresh=False) as live:
                while True:
                    time.sleep(_EVERY_S)
                    watch.look()
                    live.update(watch.drawn(console), refresh=True)
        except KeyboardInterrupt:
            return


class _Watch:
    """What was read of a proxy last. Raises ClickException where it cannot be read."""

    def __init__(self, api: httpx.Client) -> None:
        self._api = api
        self._exchanges: deque[ShownExchange] = deque(maxlen=200)
        self._newest = 0

    def look(self) -> None:
        """Read what is new."""
        import msgspec

        from trimtab.ui.shown import Exchanges, Status

        found = msgspec.json.decode(self._read(f"/exchanges?after={self._newest}"), type=Exchanges)
        if found.newest < self._newest:  # another process answers than before
            self._exchanges.clear()
        self._newest = found.newest
        self._exchanges.extend(found.exchanges)
        self._status = msgspec.json.decode(self._read("/status"), type=Status)

    def _read(self, path: str) -> bytes:
        import httpx

        try:
            answer = self._api.get(path)
        except httpx.HTTPError as error:
            raise click.ClickException(f"No proxy answers at {self._api.base_url}: {error}.") from error
        if answer.status_code != 200:
            raise click.ClickException(_reason(answer))
        return answer.content

    def drawn(self, console: Console) -> Group:
        """Totals, health and as many of the newest requests as the terminal has lines for."""
        from rich.console import Group
        from rich.text import Text

        lines = console.height - _OTHER_LINES if console.is_terminal else len(self._exchanges)
        rows = max(_LEAST_ROWS, lines)
        newest = [*self._exchanges][-rows:][::-1]
        above = (Text(line) for line in (*totals(self._status), *health(self._status), ""))
        return Group(*above, requests(newest) if newest else Text("No request yet."))


def _reason(answer: httpx.Response) -> str:
    import msgspec

    try:
        return str(msgspec.json.decode(answer.content)["error"]["message"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return f"{answer.url} answered with status {answer.status_code}. Is it a Trimtab, and is [ui] enabled?"


def totals(of: Status) -> Iterable[str]:
    """Since the start, in two lines."""
    found = of.totals
    saved = f", ${found.saved_usd:,.2f} net" if found.saved_usd > 0 else ""
    cached = f"{found.cached / found.cacheable:.1%}" if found.cacheable else "–"
    yield f"trimtab {of.version}: {found.requests:,} requests, {of.in_flight:,} in flight"
    removed = found.original - found.sent
    yield f"tokens {found.original:,} → {found.sent:,}, {removed:,} not sent{saved}; from the cache {cached}"


def health(of: Status) -> Iterable[str]:
    """What the proxy depends on, in a line each."""
    for upstream in of.upstreams:
        last = {None: "not called yet", 0: "no answer"}.get(upstream.status, f"answered {upstream.status}")
        yield f"upstream {upstream.name}: {last}, {upstream.failed:,} of {upstream.calls:,} calls failed"
    redis = f"redis {of.redis}" if of.redis else "no redis"
    made = of.summaries
    yield f"{redis}; summaries {made.state}, {made.failed:,} of the newest {made.calls:,} failed"


def requests(newest: Iterable[ShownExchange]) -> Table:
    """The newest requests, the newest first."""
    from rich.table import Table

    from trimtab.cli.terminal import printable

    grid = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for name in ("time", "model", "outcome", "original → sent of budget", "cached", "edits", "ms", "ours"):
        grid.add_column(name, justify="right" if name in ("ms", "ours", "cached") else "left", no_wrap=True)
    for each in newest:
        at = time.strftime("%H:%M:%S", time.localtime(each.ended_at))
        sizes = f"{each.original:,} → {each.sent:,} of {each.budget:,}" if each.original else "–"
        edits = ", ".join(f"{stage} {count:,}" for stage, count in each.edits.items())
        cells = (at, printable(each.model or each.path), each.outcome, sizes, _count(each.cached), edits)
        ours = "" if each.overhead_ms is None else f"{each.overhead_ms:.1f}"
        grid.add_row(*map(_plain, cells), f"{each.duration_ms:,.0f}", ours)
    return grid


def _count(number: int | None) -> str:
    return "–" if number is None else f"{number:,}"


def _plain(text: str) -> Any:
    """Text without markup: names of models come from others."""
    from rich.text import Text

    return Text(text)
