"""Every leaf of the tree as a client sees it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from trimtab import errors
from trimtab.errors import TrimtabError
from trimtab.wire import problem

LEAVES = [
    # leaf, status, type, code, worth another try
    (errors.ConfigError, 500, "server_error", None, False),
    (errors.InvalidRequest, 400, "invalid_request_error", "invalid_request", False),
    (errors.Unauthorized, 401, "authentication_error", "invalid_api_key", False),
    (errors.Forbidden, 403, "permission_error", "forbidden", False),
    (errors.NotKept, 404, "invalid_request_error", "not_kept", False),
    (errors.UnknownModel, 404, "invalid_request_error", "model_not_found", False),
    (errors.UploadTimeout, 408, "invalid_request_error", "request_timeout", True),
    (errors.NotStored, 404, "invalid_request_error", "not_found", False),
    (errors.Conflict, 409, "invalid_request_error", "conversation_locked", True),
    (errors.BodyTooLarge, 413, "invalid_request_error", "request_too_large", False),
    (errors.UpgradeRefused, 426, "invalid_request_error", "upgrade_required", False),
    (errors.UnknownEncoding, 415, "invalid_request_error", "unsupported_content_encoding", False),
    (errors.ConversationTooLong, 400, "invalid_request_error", "context_length_exceeded", False),
    (errors.RejectedLate, 502, "upstream_error", None, False),
    (errors.UpstreamUnreachable, 502, "upstream_error", "upstream_unreachable", True),
    (errors.UpstreamTimeout, 504, "upstream_error", "upstream_timeout", True),
    (errors.StoreUnavailable, 503, "server_error", "store_unavailable", True),
    (errors.Overloaded, 503, "server_error", "overloaded", True),
]
NAMES = [row[0].__name__ for row in LEAVES]


def leaves(kind: type[TrimtabError]) -> Iterator[type[TrimtabError]]:
    for child in kind.__subclasses__():
        yield from leaves(child) if child.__subclasses__() else [child]


def test_no_leaf_is_missing_here_nor_in_the_drawing() -> None:
    found = set(leaves(TrimtabError))
    assert found == {row[0] for row in LEAVES}
    assert errors.__doc__ is not None
    assert not [leaf.__name__ for leaf in found if f"── {leaf.__name__} " not in errors.__doc__]


@pytest.mark.parametrize(("leaf", "status", "kind", "code", "retry"), LEAVES, ids=NAMES)
def test_a_leaf_is_answered_in_the_envelope(
    leaf: type[TrimtabError], status: int, kind: str, code: str | None, retry: bool
) -> None:
    error = leaf("What to do.", param="messages", detail={"tokens": {"limit": 5}, "message": "not this"})
    told = msgspec.json.decode(problem.envelope(error, "req-1"))
    assert error.status == status
    assert told == {
        "error": {
            "message": "What to do.",
            "type": kind,
            "param": "messages",
            "code": code,
            "tokens": {"limit": 5},
            "request_id": "req-1",
        }
    }
    assert error.retry is retry
    assert str(error) == "What to do."


@pytest.mark.parametrize(("leaf", "status", "kind", "code", "retry"), LEAVES, ids=NAMES)
def test_only_what_may_pass_is_to_be_tried_again(
    leaf: type[TrimtabError], status: int, kind: str, code: str | None, retry: bool
) -> None:
    headers = dict(problem.headers(leaf("x")))
    assert headers[b"content-type"] == b"application/json"
    assert (headers.get(b"x-should-retry") == b"false") is (status < 500 and not retry)
    assert (b"retry-after" in headers) is (leaf is errors.Overloaded)
    assert (b"www-authenticate" in headers) is (leaf is errors.Unauthorized)


def test_the_tree_says_whose_fault_it_is() -> None:
    for leaf, status, *_ in LEAVES:
        assert issubclass(leaf, errors.RequestError) is (400 <= status < 500)
        assert issubclass(leaf, errors.UpstreamError) is (status in (502, 504))


def test_two_errors_do_not_share_their_details() -> None:
    first, second = errors.InvalidRequest("a"), errors.InvalidRequest("b")
    first.detail["x"] = 1
    assert second.detail == {}
    assert second.param is None
