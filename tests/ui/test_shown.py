"""The values of the pages' API, made of what is kept."""

from __future__ import annotations

from tests.support.planned import planned_notes
from trimtab.exchange.notes import Notes, Relayed
from trimtab.telemetry import Usage
from trimtab.ui.ring import Ring
from trimtab.ui.settings import UiSettings
from trimtab.ui.shown import column, conversations, failed_calls, shown, window


def sent(cycles: int, status: int = 200) -> Notes:
    notes = planned_notes(cycles)
    notes.calling("up")
    notes.answered(status, 0)
    notes.outcome = "shaped"
    notes.relayed(Relayed(status, usage=Usage(5_000, 10, 4_000)))
    return notes


def kept(*notes: Notes) -> Ring:
    ring = Ring(UiSettings())
    for each in notes:
        ring.add(each.record(each.clock()), each)
    return ring


def test_an_exchange_shows_the_figures_of_its_record() -> None:
    found = shown(kept(sent(40)).after(0)[0])
    assert (found.number, found.status, found.outcome, found.messages) == (1, 200, "shaped", 82)
    assert found.original > found.budget > found.sent > 0
    assert (found.prompt, found.cached, found.completion) == (5_000, 4_000, 10)
    assert found.edits == {"cleared": found.edits["cleared"]}
    assert not found.has_text


def test_what_was_not_planned_has_no_figures() -> None:
    found = kept(Notes("r", "passthrough")).after(0)[0]
    assert (shown(found).conversation, shown(found).cached, column(found).kinds) == ("", None, {})
    assert window(found).messages is None


def test_a_column_adds_up_and_names_what_went() -> None:
    made = column(kept(sent(40)).after(0)[0])
    assert sum(made.kinds.values()) == made.exchange.sent
    assert list(made.removed) == ["cleared"]
    assert made.exchange.sent + made.removed["cleared"] == made.exchange.original


def test_conversations_are_listed_by_their_newest_request() -> None:
    other = Notes("r", "chat")
    other.planned(sent(1).shaping, 0.0)  # type: ignore[arg-type]
    ring = kept(sent(2), sent(3))
    other.tenant = b"another"
    ring.add(other.record(other.clock()), other)
    newest, oldest = conversations(ring.after(0))
    assert (newest.requests, oldest.requests) == (1, 2)
    assert oldest.messages == 8


def test_calls_that_failed_are_counted_by_upstream() -> None:
    exchanges = [each.exchange for each in kept(sent(1), sent(1, 503), sent(1, 429)).after(0)]
    assert failed_calls(exchanges, "up") == (3, 1)
    assert failed_calls(exchanges, "other") == (0, 0)
