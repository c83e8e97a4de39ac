"""The picture of a plan in a terminal: what is sent of a conversation, against the budget.

From top to bottom: the model and its budget, the tokens before and after, whether it fits, a table by kind of message,
and the conversation itself in a bounded number of rows. Narrow terminals get fewer columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from trimtab.cli.plan_rows import FATES, Fate, Item, Run, by_kind, items, runs
from trimtab.cli.terminal import ascii_only, bar, fitted, open_console, printable
from trimtab.exchange.decide import Shaping
from trimtab.exchange.refusals import refusal

# The colour of each fate.
COLOURS: dict[str, str] = {
    "kept": "green",
    "truncated": "yellow",
    "trimmed": "yellow",
    "cleared": "cyan",
    "summarized": "magenta",
    "dropped": "red",
    "squeezed": "yellow",
}
NARROW = 90  # columns; below, rows have no bars and no counts
_SHARE_CELLS = 20  # columns of a row's bar
_MESSAGE_CELLS = 52  # the most columns for a row's messages


def show(shaping: Shaping, most_rows: int, console: Console | None = None) -> None:
    """Print the picture, the conversation in at most `most_rows` rows."""
    out = console or open_console()
    all_items = items(shaping.history.views, shaping.plan, shaping.counted)
    out.print(_head(shaping), soft_wrap=False)
    out.print()
    for line in _bars(shaping, out):
        out.print(line, no_wrap=True, overflow="crop")
    out.print()
    out.print(_verdict(shaping))
    out.print()
    out.print(_kinds(shaping, all_items, narrow=out.width < NARROW))
    if shaping.plan.shaped:
        out.print()
        out.print(_rows(runs(shaping.history.views, all_items, most_rows), out))


def _head(shaping: Shaping) -> Text:
    limit, budget = shaping.limit, shaping.budget
    detail = f": {limit.detail}" if limit.detail else ""
    return Text.assemble(
        (printable(shaping.request.model) or "no model", "bold"),
        printable(f": window {budget.context_size:,} ({limit.source}{detail}), "),
        f"{budget.reserved:,} reserved for the answer, budget {budget.usable:,} tokens",
        "" if shaping.factor == 1 else f", factor {shaping.factor:g} until the upstream reports a count",
    )


def _bars(shaping: Shaping, out: Console) -> Iterator[Text]:
    """Tokens before and after on one scale, with a pointer at the budget."""
    plan, budget = shaping.plan, shaping.budget.usable
    before, after = shaping.counted(plan.original), shaping.counted(plan.sent)
    cells = max(10, min(out.width, 110) - 20)
    scale = max(before, after, budget, 1)
    for name, tokens in (("before", before), ("after", after)):
        drawn = bar(tokens, scale, cells, out)
        within = round(budget / scale * cells) if tokens > budget else len(drawn)
        text = Text.assemble(f"{name:>7} ", (drawn[:within], "green"), (drawn[within:], "red"))
        text.pad_right(max(0, cells + 9 - text.cell_len))
        yield text.append(f"{tokens:>10,}", "bold")
    at = min(cells - 1, round(budget / scale * cells))
    label = f"budget {budget:,}"
    pointer = "^" if ascii_only(out) else "▲"
    if at + 2 + len(label) <= cells + 11:
        yield Text(f"{'':>8}{' ' * at}{pointer} {label}", "dim")
    else:
        yield Text(f"{'':>8}{' ' * (at - len(label) - 1)}{label} {pointer}", "dim")


def _verdict(shaping: Shaping) -> Text:
    plan = shaping.plan
    if error := refusal(shaping):
        return Text.assemble(("Would be refused. ", "bold red"), error.message)
    if not plan.fits:
        if shaping.counted(plan.sent) <= shaping.budget.most:
            text = "it would be sent all the same, as small as it can be made, because the model takes it."
            return Text.assemble(("Above the budget of its profile: ", "bold yellow"), text)
        text = "it would be sent all the same, and the upstream decides."
        return Text.assemble(("Too long by the estimate: ", "bold yellow"), text)
    if not plan.shaped:
        same = "it would be sent exactly as received."
        marks = "nothing is removed; only the announcement is added, and pin marks are stripped."
        return Text.assemble(("Fits: ", "bold green"), marks if plan.changes else same)
    saved = shaping.counted(plan.original) - shaping.counted(plan.sent)
    observed = " (mode = observe: reported only)" if shaping.policy.shaping.mode == "observe" else ""
    share = saved / max(1, shaping.counted(plan.original))
    return Text.assemble(("Shaped to fit: ", "bold green"), f"{saved:,} tokens removed, {share:.0%}{observed}.")


def _kinds(shaping: Shaping, all_items: list[Item], *, narrow: bool) -> Table:
    """Tokens and fates by kind of message."""
    kinds = by_kind(all_items)
    used = [fate for fate in FATES if any(run.fates[fate] for run in kinds.values())]
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for name in ("kind", "messages", "before", "after"):
        table.add_column(name, justify="left" if name == "kind" else "right", no_wrap=True)
    for name in ["what happens"] if narrow else used:
        table.add_column(name, justify="left" if narrow else "right", no_wrap=not narrow)
    for name, run in kinds.items():
        cells = [fates(run.fates)] if narrow else [_count(run.fates[fate], fate) for fate in used]
        table.add_row(name, f"{len(run.items):,}", f"{run.before:,}", f"{run.after:,}", *cells)
    for name, before, after in _beside(shaping):
        table.add_row(name, "", f"{before:,}" if before else "", f"{after:,}")
    plan = shaping.plan
    table.add_section()
    original, sent = shaping.counted(plan.original), shaping.counted(plan.sent)
    table.add_row("all", f"{len(all_items):,}", f"{original:,}", f"{sent:,}", style="bold")
    return table


def _beside(shaping: Shaping) -> Iterator[tuple[str, int, int]]:
    """What is sent besides the messages: name, tokens before, tokens after."""
    counted, plan = shaping.counted, shaping.plan
    instructions = shaping.history.instructions
    schemas, gap = counted(shaping.history.extras - instructions), counted(plan.gap.tokens) if plan.gap else 0
    if instructions:
        yield "system prompt", counted(instructions), counted(instructions)
    if schemas:
        yield "tool schemas", schemas, schemas
    if gap:
        yield "summary" if plan.summary else "note", 0, gap
    if plan.announce is not None:
        yield "announcement", 0, counted(plan.announce.tokens)


def _rows(rows: list[Run], out: Console) -> Table:
    """The conversation from top to bottom. All widths are fixed; the messages get what remains."""
    narrow = out.width < NARROW
    places, ends = [place(row) for row in rows], [fates(row.fates) for row in rows]
    share = 0 if narrow else _SHARE_CELLS
    widths = (max(map(len, places)), *(max(7, len(f"{n:,}")) for n in _largest(rows)), share)
    taken = sum(widths) + max(13, *map(len, ends)) + 2 * (4 + bool(share))
    room = max(12, min(_MESSAGE_CELLS, out.width - taken))
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("#", no_wrap=True, min_width=widths[0])
    table.add_column("messages", no_wrap=True, min_width=room)
    for name, width in zip(("before", "after"), widths[1:3], strict=True):
        table.add_column(name, justify="right", no_wrap=True, min_width=width)
    if not narrow:
        table.add_column("", no_wrap=True, min_width=share)
    table.add_column("what happens", no_wrap=True)
    for row, where, what in zip(rows, places, ends, strict=True):
        drawn = [] if narrow else [_share(row, _largest(rows)[0], out)]
        text = fitted(content(row, narrow=narrow), room, out)
        table.add_row(where, text, f"{row.before:,}", f"{row.after:,}", *drawn, what)
    return table


def _largest(rows: list[Run]) -> tuple[int, int]:
    return max(row.before for row in rows), max(row.after for row in rows)


def _share(row: Run, largest: int, out: Console) -> Text:
    """A bar of what stays, continued in grey by what goes."""
    kept = bar(row.after, max(1, largest), _SHARE_CELLS, out).rstrip()
    whole = bar(row.before, max(1, largest), _SHARE_CELLS, out).rstrip()
    gone = "." if ascii_only(out) else "░"
    colour = COLOURS[row.fates.most_common(1)[0][0]]
    return Text.assemble((kept, colour), (gone * max(0, len(whole) - len(kept)), "dim"))


def place(row: Run) -> str:
    """The indexes of a row's messages in the request."""
    first, last = row.items[0].index, row.items[-1].index
    return f"{first}" if first == last else f"{first}-{last}"


def content(row: Run, *, narrow: bool = False) -> str:
    """The kinds of messages in a row, and the tools called most."""
    if len(row.items) == 1:
        text = row.items[0].kind.removesuffix("s")
    elif narrow:
        text = f"{len(row.items):,} messages"
    else:
        text = ", ".join(_numbered(count, kind) for kind, count in row.kinds.items())
    tools = [f"{name} ×{n}" if n > 1 else name for name, n in row.tools.most_common(3)]
    more = ", and more" if len(row.tools) > 3 else ""
    return printable(f"{text}: {', '.join(tools)}{more}" if tools else text)


def _numbered(count: int, kind: str) -> str:
    """`1 call`, `2 results`, `3 assistant`."""
    name = kind.removeprefix("tool ")
    return f"{count:,} {name.removesuffix('s') if count == 1 and name != kind else name}"


def fates(counts: Counter[Fate]) -> Text:
    """`cleared 40, dropped 3`. `kept` is left out beside other fates, and the number where there is one message."""
    if sum(counts.values()) == 1 or set(counts) == {"kept"}:
        only = next(iter(counts))
        return Text(only, COLOURS[only])
    changed = [fate for fate in FATES if counts[fate] and fate != "kept"]
    return Text(", ").join(Text(f"{fate} {counts[fate]:,}", COLOURS[fate]) for fate in changed)


def _count(number: int, fate: Fate) -> Text:
    return Text(f"{number:,}", COLOURS[fate]) if number else Text("")
