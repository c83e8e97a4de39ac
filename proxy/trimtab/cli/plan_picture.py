"""The picture of a plan in a terminal: what is sent of what there is, against the budget.

Narrow terminals get fewer columns, terminals without UTF-8 get ASCII bars, pipes get plain text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from trimtab.cli.plan_rows import FATES, Fate, Item, Run, by_kind, items, runs
from trimtab.cli.terminal import ascii_only, open_console, printable
from trimtab.exchange.shape import Shaping, refusal

# One colour for a fate, everywhere.
COLOURS: dict[str, str] = {
    "kept": "green",
    "truncated": "yellow",
    "cleared": "cyan",
    "summarized": "magenta",
    "dropped": "red",
    "squeezed": "yellow",
}
NARROW = 90  # columns below which rows are written without bars and counts
_SHARE_CELLS = 20
_MESSAGE_CELLS = 52  # the most a row's messages take
_EIGHTHS = " ▏▎▍▌▋▊▉"


def show(shaping: Shaping, most_rows: int, console: Console | None = None) -> None:
    """Print the picture. `most_rows` bounds the list of messages."""
    out = console or open_console()
    all_items = items(shaping.conversation.views, shaping.plan, shaping.counted)
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
        out.print(_rows(runs(shaping.conversation.views, all_items, most_rows), out))


def _head(shaping: Shaping) -> Text:
    limit, budget = shaping.limit, shaping.budget
    detail = f": {limit.detail}" if limit.detail else ""
    return Text.assemble(
        (printable(shaping.request.model) or "no model named", "bold"),
        printable(f": window {budget.context_size:,} ({limit.source}{detail}), "),
        f"{budget.reserved:,} reserved for the answer, budget {budget.usable:,} tokens",
        "" if shaping.factor == 1 else f", estimates times {shaping.factor:g} until its counts are known",
    )


def _bars(shaping: Shaping, out: Console) -> Iterator[Text]:
    """Before and after on one scale, the budget marked below."""
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


def bar(tokens: int, scale: int, cells: int, out: Console) -> str:
    """A bar of `tokens` where `scale` tokens are `cells` wide, to an eighth of a cell."""
    eighths = round(tokens / scale * cells * 8)
    if ascii_only(out):
        return "#" * max(round(eighths / 8), tokens > 0)
    whole, rest = divmod(max(eighths, tokens > 0), 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")


def _verdict(shaping: Shaping) -> Text:
    plan = shaping.plan
    if error := refusal(shaping):
        return Text.assemble(("Would be refused. ", "bold red"), error.message)
    if not plan.fits:
        return Text.assemble(
            ("Does not quite fit by estimate: ", "bold yellow"), "it would be sent, and the upstream decides."
        )
    if not plan.shaped:
        same = "the very bytes received would be sent."
        marks = "nothing goes; the announcement is added, marks of pins are taken off."
        return Text.assemble(("Fits: ", "bold green"), marks if plan.changes else same)
    saved = shaping.counted(plan.original) - shaping.counted(plan.sent)
    observed = " (mode = observe: only reported)" if shaping.policy.shaping.mode == "observe" else ""
    share = saved / max(1, shaping.counted(plan.original))
    return Text.assemble(("Shaped to fit: ", "bold green"), f"{saved:,} tokens less, {share:.0%}{observed}.")


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
    for name, before, after in _beside(shaping, sum(item.after for item in all_items)):
        table.add_row(name, "", f"{before:,}" if before else "", f"{after:,}")
    plan = shaping.plan
    table.add_section()
    original, sent = shaping.counted(plan.original), shaping.counted(plan.sent)
    table.add_row("all", f"{len(all_items):,}", f"{original:,}", f"{sent:,}", style="bold")
    return table


def _beside(shaping: Shaping, messages: int) -> Iterator[tuple[str, int, int]]:
    """What is sent beside the messages' `messages` tokens: name, tokens before and after."""
    counted, plan = shaping.counted, shaping.plan
    schemas, gap = counted(shaping.conversation.extras), counted(plan.gap.tokens) if plan.gap else 0
    if schemas:
        yield "tool schemas", schemas, schemas
    if gap:
        yield "summary" if plan.summary else "note", 0, gap
    if plan.announce is not None:
        yield "announcement", 0, max(0, counted(plan.sent) - messages - schemas - gap)


def _rows(rows: list[Run], out: Console) -> Table:
    """The conversation from top to bottom. Widths are fixed here: what is short of room are the messages."""
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
        said = fitted(content(row, narrow=narrow), room, out)
        table.add_row(where, said, f"{row.before:,}", f"{row.after:,}", *drawn, what)
    return table


def _largest(rows: list[Run]) -> tuple[int, int]:
    return max(row.before for row in rows), max(row.after for row in rows)


def fitted(text: str, cells: int, out: Console) -> str:
    """`text` in at most `cells` columns, its end marked where it is cut."""
    if ascii_only(out):
        text = text.replace("×", "x").encode("ascii", "replace").decode()
    if cell_len(text) <= cells:
        return text
    mark = "~" if ascii_only(out) else "…"
    return set_cell_size(text, cells - 1) + mark


def _share(row: Run, largest: int, out: Console) -> Text:
    """What stays, and behind it in grey what goes."""
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
    """What kinds of messages a row holds, and which tools were called most."""
    if len(row.items) == 1:
        said = row.items[0].kind.removesuffix("s")
    elif narrow:
        said = f"{len(row.items):,} messages"
    else:
        said = ", ".join(_numbered(count, kind) for kind, count in row.kinds.items())
    tools = [f"{name} ×{n}" if n > 1 else name for name, n in row.tools.most_common(3)]
    more = ", and more" if len(row.tools) > 3 else ""
    return printable(f"{said}: {', '.join(tools)}{more}" if tools else said)


def _numbered(count: int, kind: str) -> str:
    """`1 call`, `2 results`, `3 assistant`."""
    name = kind.removeprefix("tool ")
    return f"{count:,} {name.removesuffix('s') if count == 1 and name != kind else name}"


def fates(counts: Counter[Fate]) -> Text:
    """`cleared 40, dropped 3`; what is kept goes without saying where anything else happens, and a single fate
    of a single message stands without its number."""
    if sum(counts.values()) == 1 or set(counts) == {"kept"}:
        only = next(iter(counts))
        return Text(only, COLOURS[only])
    changed = [fate for fate in FATES if counts[fate] and fate != "kept"]
    return Text(", ").join(Text(f"{fate} {counts[fate]:,}", COLOURS[fate]) for fate in changed)


def _count(number: int, fate: Fate) -> Text:
    return Text(f"{number:,}", COLOURS[fate]) if number else Text("")
