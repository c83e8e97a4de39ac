"""What an answer reports of the stored conversation it is a part of."""

from __future__ import annotations

from trimtab.exchange.report import Part


def test_a_conversation_that_was_sent_whole_has_no_gap() -> None:
    part = Part("trip", 5, 5)
    assert part.headers() == [(b"x-trimtab-conversation", b"trip"), (b"x-trimtab-messages", b"history=5, sent=5")]
    assert part.fields() == {"id": "trip", "messages": 5, "sent": 5}


def test_a_chain_of_responses_has_no_id() -> None:
    assert Part("", 5, 5).headers() == [(b"x-trimtab-messages", b"history=5, sent=5")]
    assert Part("", 5, 5).fields() == {"messages": 5, "sent": 5}


def test_the_gap_is_a_place_for_a_divider() -> None:
    part = Part("trip", 50, 12, 40, "msg_1", "summary")
    assert part.headers()[1] == (b"x-trimtab-messages", b"history=50, sent=12, gap=40")
    assert part.fields()["gap"] == {"before": 40, "stands": "summary", "item": "msg_1"}
    assert Part("trip", 50, 12, 40).fields()["gap"] == {"before": 40, "stands": None}
