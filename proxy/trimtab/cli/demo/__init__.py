"""`trimtab demo`: a recorded agent run against a small window, first without the proxy, then through it.

All but the model is real: the OpenAI SDK, the server, true token counts, a strict upstream. Nothing leaves the machine.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
import webbrowser
from importlib.util import find_spec
from typing import IO, TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console

    from trimtab.cli.demo.client import Step
    from trimtab.cli.demo.recording import Recording
    from trimtab.cli.demo.running import Running
    from trimtab.cli.demo.upstream import Upstream

_LOOK_S = 3.0  # seconds between the opening of the page and the run
_MOST_S = 40.0  # seconds for all requests; a slow machine leaves some out
_RESERVE_SHARE = 8  # an eighth of the window is reserved for the answer: 4,096 of 32,768


@click.command()
@click.option(
    "--window", type=click.IntRange(4096), default=32_768, show_default=True, help="The model's window, in tokens."
)
@click.option("--steps", type=click.IntRange(1), help="Make only this many of the 367 requests, spread evenly.")
@click.option("--keep", is_flag=True, help="At the end keep the proxy and the upstream running, until Ctrl-C.")
@click.option("--ui", is_flag=True, help="Open the page /ui of the proxy, to watch the run in it; implies --keep.")
def demo(window: int, steps: int | None, keep: bool, ui: bool) -> None:
    """Watch a recorded agent run survive a small window.

    Replays a recorded coding agent (130,000 tokens at its end, one user turn, 373 tool calls) with the OpenAI SDK:
    first directly against an upstream with a window of 32,768 tokens, which refuses it, then through Trimtab. It needs
    no key, no Redis and no network: the upstream is part of the demo, counts true tokens and has a prefix cache.

    \b
      trimtab demo
      trimtab demo --window 16384 --steps 60
      trimtab demo --ui            watch it in a browser
      trimtab demo --keep          keeps it running: try it with curl, or look at /metrics
    """
    require("openai", "bpe_openai")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    from trimtab.cli.demo.recording import load
    from trimtab.cli.demo.running import Running
    from trimtab.cli.demo.upstream import Upstream
    from trimtab.cli.terminal import open_console

    reserve = window // _RESERVE_SHARE
    with (
        Upstream(window) as upstream,
        tempfile.TemporaryFile() as log,
        tempfile.NamedTemporaryFile("w", suffix=".toml") as config,
        Running(upstream.base_url, window, reserve, log, config.name if _written(config, ui=ui) else "") as proxy,
    ):
        _Demo(open_console(), load(), upstream, reserve, steps).run(proxy, keep or ui, ui=ui)


def _written(config: IO[str], *, ui: bool) -> bool:
    """Write the configuration of a demo that is watched: all of its text is shown."""
    if ui:
        config.write("[ui]\ntext = true\nkeep_text = 400\ntext_mb = 400\n")
        config.flush()
    return ui


def require(*modules: str) -> None:
    """Raises ClickException, with what to install, when one of `modules` is missing."""
    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        raise click.ClickException(
            f"The demo needs the OpenAI SDK and a tokenizer; missing: {', '.join(missing)}. "
            "Install them: pip install openai bpe-openai"
        )


class _Demo:
    """The two runs of the demo, and what it prints about them."""

    def __init__(
        self, console: Console, recording: Recording, upstream: Upstream, reserve: int, number: int | None
    ) -> None:
        from trimtab.cli.demo.counting import Counter200k, growing
        from trimtab.cli.demo.recording import spread

        self._console, self._recording, self._upstream = console, recording, upstream
        self._reserve = reserve
        self._steps = spread(recording.steps, number)
        self._sizes = growing(Counter200k(), recording.messages, recording.tools or ())

    def run(self, proxy: Running, keep: bool, *, ui: bool = False) -> None:
        """Make both runs; with `keep`, wait for Ctrl-C at the end; with `ui`, open the page before the second run."""
        self._introduce()
        without = self._without()
        self._upstream.forget()
        proxy.wait()
        if ui:
            self._open(f"{proxy.url}/ui")
        through = self._through(proxy.url)
        self._compare(without, through)
        if keep:
            self._keep(proxy.url)
        else:
            self._print("\nNext: trimtab serve --upstream URL, and set your SDK's base_url to where it listens.")

    def _introduce(self) -> None:
        largest = self._sizes[self._steps[-1][1]]
        self._print(
            f"A recorded agent run: {len(self._steps)} requests, the last with {largest:,} tokens of history.\n"
            f"The upstream takes {self._upstream.window:,} tokens, {self._reserve:,} of them for the answer.\n"
        )

    def _open(self, page: str) -> None:
        """Open a page in a browser where there is one, and give a person time to look."""
        self._print(f"Watch it in a browser: {page}")
        if sys.stdout.isatty() and (sys.platform != "linux" or {"DISPLAY", "WAYLAND_DISPLAY"} & set(os.environ)):
            webbrowser.open(page)
        time.sleep(_LOOK_S)

    def _without(self) -> list[Step]:
        """Directly against the upstream, up to the first refusal: an agent would stop there."""
        from trimtab.cli.demo.client import Client

        client = Client(self._upstream.base_url, self._recording, self._reserve)
        done: list[Step] = []
        for step in client.replay(self._steps):
            done.append(step)
            if step.error:
                break
        client.close()
        last = done[-1]
        if last.error:
            self._print(f"Without Trimtab: request {last.number} is refused.\n  {last.error}\n")
        else:
            self._print("Without Trimtab: every request fits. Try a smaller --window.\n")
        return done

    def _through(self, url: str) -> list[Step]:
        from trimtab.cli.demo.client import Client
        from trimtab.cli.demo.recording import paced
        from trimtab.cli.demo.show import watched

        client = Client(f"{url}/v1", self._recording, self._reserve)
        replayed = client.replay(paced(self._steps, _MOST_S))
        done = list(watched(self._console, replayed, self._steps[-1][0], self._sizes, "With Trimtab"))
        client.close()
        if len(done) < len(self._steps):
            self._print(
                f"(This machine is slow: only {len(done)} of {len(self._steps)} requests were made, spread over the "
                "run. With gaps between them the prefix cache serves less.)"
            )
        return done

    def _compare(self, without: list[Step], through: list[Step]) -> None:
        from trimtab.cli.demo.score import score
        from trimtab.cli.demo.show import curves, table

        refused_at = without[-1] if without[-1].error else None
        refusals = [step for step in through if step.error]
        for step in refusals[:3]:
            self._print(f"With Trimtab: request {step.number} is refused.\n  {step.error}\n")
        self._print("")
        scores = score(without, self._sizes), score(through, self._sizes)
        self._console.print(table(len(self._steps), scores[0], refused_at, scores[1]), "")
        for line in curves(self._console, through, self._sizes, self._upstream.window):
            self._console.print(line, no_wrap=True, overflow="crop")
        if refused := self._upstream.refused:
            requests = "1 request" if refused == 1 else f"{refused} requests"
            self._print(
                f"\nThe upstream refused {requests} that fit by the estimate; each was sent once more, smaller."
            )

    def _keep(self, url: str) -> None:
        from trimtab.cli.demo.upstream import MODEL

        body = f'{{"model": "{MODEL}", "messages": [{{"role": "user", "content": "Hello"}}]}}'
        self._print(
            f"\nRunning until Ctrl-C. base_url for any OpenAI SDK: {url}/v1  (any key, model {MODEL!r})\n"
            f"  curl -i {url}/v1/chat/completions -H 'content-type: application/json' -d '{body}'\n"
            f"  curl {url}/metrics\n  what the window held, and what went: {url}/ui"
        )
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            self._print("Stopped.")

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, soft_wrap=True)
