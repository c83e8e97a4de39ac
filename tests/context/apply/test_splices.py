"""A body put together from splices of the request is, byte for byte, the one that is made from the start."""

from __future__ import annotations

import json
import os
from array import array
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.context.histories import conversations, default_like, histories, policies
from tests.support.converted import as_messages, as_responses
from tests.support.messages import calls, prose, result, system, tool_loop, user
from trimtab.context.apply.apply import apply, apply_again
from trimtab.context.apply.splices import Splices
from trimtab.context.apply.splicing import Written
from trimtab.context.edits import Plan
from trimtab.context.plan.plan import plan
from trimtab.context.plan.replays import Replays
from trimtab.context.policy import Policy, ShapingSettings
from trimtab.context.read.history import History, Reader
from trimtab.context.read.memo import Memo
from trimtab.context.read.prefixes import Prefixes
from trimtab.context.read.structure import boundaries
from trimtab.dialects.dialect import Dialect
from trimtab.dialects.paths import DIALECTS
from trimtab.errors import InvalidRequest
from trimtab.wire.messages import Pieces
from trimtab.wire.request import Unreadable

DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"
law = settings(
    max_examples=2_000 if DEEP else 40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    phases=[Phase.explicit, Phase.reuse, Phase.generate, *([Phase.shrink] if DEEP else [])],
    print_blob=True,
)
any_policy = policies() | policies(default_like)
shares = st.sampled_from([0.05, 0.2, 0.4, 0.6, 0.8, 1.2])

CHAT = next(d for d in DIALECTS if d.name == "chat")
AS: dict[str, Any] = {"chat": dict, "responses": as_responses, "messages": as_messages}


def cycle(k: int) -> list[bytes]:
    text = f"src/module_{k}.py: def function_{k}(first)\n    return table_{k % 7}.get('café {k}')\n" + prose(150)
    return [calls(f"c{k}", arguments=json.dumps({"path": f"src/module_{k}.py"})), result(f"c{k}", text)]


RUN = [
    json.loads(raw)
    for raw in (
        system(),
        user("Look at src/main.py and never touch conf.d/x1."),
        *[message for k in range(60) for message in cycle(k)],
        user("And now?"),
        *tool_loop(20, 300, 60),
    )
]


class Core:
    """What a process knows of one dialect, with small strides; it counts what was put together from splices."""

    def __init__(self, dialect: Dialect = CHAT, stride: int = 1_000) -> None:
        self.dialect, self.memo = dialect, Memo(view=dialect.format.view, digest=dialect.format.digest)
        self._reader = Reader(self.memo, Prefixes(stride=stride), dialect.decode)
        self._replays, self.splices = Replays(), Splices(self.memo, dialect.format)
        self.from_splices = self.shaped = self.unbound = self.announced = 0

    def read(self, body: bytes, policy: Policy, budget: int, tenant: bytes = b"") -> tuple[Any, History, Plan]:
        reading = self._reader.read(body, tenant)
        history = self._reader.history(reading)
        return reading.request, history, plan(history, policy, budget, self.memo, self.dialect.format, self._replays)

    def check(
        self, body: bytes, budget: int, policy: Policy | None = None, summary: str | None = None, tenant: bytes = b""
    ) -> None:
        """Both ways give the same bytes."""
        request, history, made = self.read(body, policy or Policy(), budget, tenant)
        format, render = self.dialect.format, self.dialect.render
        fresh = render(request, apply(request.messages, made, summary, "system", format), {})
        again = apply_again(history, made, summary, "system", format, self.splices)
        assert render(request, again, {}) == fresh
        self.from_splices += isinstance(again, Pieces)
        self.shaped += made.shaped
        self.unbound += bool(made.unbind)
        self.announced += made.announce is not None


def body_of(count: int, dialect: Dialect = CHAT, *, is_spaced: bool = False, **fields: Any) -> bytes:
    request = AS[dialect.name]({"model": "m", "messages": RUN[:count], **fields})
    return json.dumps(request).encode() if is_spaced else msgspec.json.encode(request)


ENDS = [i for i in range(20, len(RUN) + 1) if i == len(RUN) or RUN[i]["role"] == "assistant"]


@pytest.mark.parametrize("budget", [1_200, 2_500, 4_000])
@pytest.mark.parametrize("is_spaced", [False, True])
@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda d: d.name)
def test_every_step_of_a_conversation(dialect: Dialect, is_spaced: bool, budget: int) -> None:
    core = Core(dialect)
    for end in ENDS:
        core.check(body_of(end, dialect, is_spaced=is_spaced), budget)
    assert core.shaped > 20
    if budget > 1_200:
        assert core.from_splices > core.shaped * 0.9


def as_claude_code(count: int, *, marks: bool) -> bytes:
    """A request of the Messages API with system messages behind user messages, words of the user's behind results, and
    marks for the provider's cache, which move on."""
    request = as_messages({"model": "m", "messages": RUN[:count]})
    listed: list[dict[str, Any]] = []
    for n, message in enumerate(request["messages"]):
        listed.append(message)
        if message["role"] == "user" and n % 6 == 0:
            listed.append({"role": "system", "content": f"The task tools were not used for {n} steps."})
        elif message["role"] == "user" and n % 6 == 2:
            message["content"].append({"type": "text", "text": f"<system-reminder>Mind table_{n}.</system-reminder>"})
    for message in [message for message in listed if message["role"] == "user"][-2:] if marks else ():
        message["content"][-1]["cache_control"] = {"type": "ephemeral"}
    return msgspec.json.encode({**request, "messages": listed})


@pytest.mark.parametrize("budget", [1_200, 2_500, 4_000])
@pytest.mark.parametrize("marks", [False, True])
@pytest.mark.parametrize(
    "policy", [Policy(), Policy(compaction=True, summary_tokens=200), Policy(strict_roles=True)], ids=str
)
def test_every_step_of_an_agent_with_system_messages(policy: Policy, marks: bool, budget: int) -> None:
    core = Core(next(d for d in DIALECTS if d.name == "messages"))
    for end in ENDS:
        core.check(as_claude_code(end, marks=marks), budget, policy, "It was long." if policy.compaction else None)
    if budget > 1_200 and not policy.strict_roles:
        assert core.from_splices > core.shaped * 0.9


@pytest.mark.parametrize("budget", [2_500, 4_000])
def test_every_step_of_an_agent_that_thinks(budget: int) -> None:
    core = Core(next(d for d in DIALECTS if d.name == "messages"))
    for end in ENDS:
        body = msgspec.json.encode(as_messages({"model": "m", "messages": RUN[:end]}, thinks=True))
        core.check(body, budget, Policy(binds_thinking=True))
    assert core.unbound > 20
    assert core.from_splices > core.shaped * 0.9


TOOLS: Any = [{"type": "function", "function": {"name": "read_file", "parameters": {"type": "object"}}}]


@pytest.mark.parametrize("budget", [2_500, 10**6])
@pytest.mark.parametrize("prompt", ["text", "parts", "none"])
@pytest.mark.parametrize("dialect", [d for d in DIALECTS if d.name != "messages"], ids=lambda d: d.name)
def test_every_step_with_an_announcement(dialect: Dialect, prompt: str, budget: int) -> None:
    """It joins the system message, or is one, also where everything fits."""
    first = {"text": RUN[:1], "parts": [{"role": "system", "content": [{"type": "text", "text": "S"}]}], "none": []}
    core, policy = Core(dialect), Policy(shaping=ShapingSettings(announce=True))
    for end in ENDS:
        request = {"model": "m", "tools": TOOLS, "messages": [*first[prompt], *RUN[1:end]]}
        core.check(msgspec.json.encode(AS[dialect.name](request)), budget, policy)
    assert core.announced == len(ENDS)
    assert core.from_splices > len(ENDS) * 0.9


def test_every_step_with_marks_of_the_client() -> None:
    core = Core()
    marked = [{**message, "pinned": True} if n % 5 == 1 else message for n, message in enumerate(RUN)]
    for end in ENDS:
        core.check(msgspec.json.encode({"model": "m", "messages": marked[:end]}), 4_000)
    assert core.from_splices > core.shaped * 0.9


@law
@given(histories, any_policy, st.sampled_from([None, TOOLS]), shares)
def test_any_chat(raws: list[bytes], policy: Policy, tools: Any, share: float) -> None:
    """Each of its requests, one after the other, and the last one again. What cannot be read is not shaped."""
    core, summary = Core(stride=100), "It was about a.py." if policy.compaction else None
    head = b'{"model":"m",' + (b'"tools":%b,' % msgspec.json.encode(tools) if tools else b"") + b'"messages":['
    budget = max(1, int(sum([view.tokens for view in Memo().views(raws)]) * share))
    for end in [*boundaries(Memo().views(raws)), len(raws), len(raws)]:
        with suppress(Unreadable, InvalidRequest):
            core.check(head + b",".join(raws[:end]) + b"]}", budget, policy, summary)


@law
@given(conversations(), any_policy, st.booleans(), shares, st.sampled_from(DIALECTS[1:]))
def test_any_conversation(raws: list[bytes], policy: Policy, thinks: bool, share: float, dialect: Dialect) -> None:
    """The same in the other dialects, also where thinking is bound to what is before it."""
    core, summary = Core(dialect, stride=100), "It was about a.py." if policy.compaction else None
    policy = msgspec.structs.replace(policy, binds_thinking=thinks)
    messages = [json.loads(raw) for raw in raws]
    budget = max(1, int(sum([view.tokens for view in Memo().views(raws)]) * share))
    for end in [*boundaries(Memo().views(raws)), len(raws), len(raws)]:
        request = {"model": "m", "tools": TOOLS, "messages": messages[:end]}
        core.check(msgspec.json.encode(AS[dialect.name](request, thinks=thinks)), budget, policy, summary)


def test_blocks_in_a_chat() -> None:
    core = Core()
    for end in ENDS:
        core.check(msgspec.json.encode(as_messages({"model": "m", "messages": RUN[:end]})), 2_500)
    assert core.from_splices > core.shaped * 0.9


@pytest.mark.parametrize(
    "policy",
    [
        Policy(compaction=True, summary_tokens=200),
        Policy(strict_roles=True),
        Policy(strict_roles=True, compaction=True, summary_tokens=200),
        Policy(needs_json_word=True),
        Policy(binds_thinking=True, strict_roles=True, shaping=ShapingSettings(announce=True)),
        Policy(binds_thinking=True),
        Policy(shaping=ShapingSettings(announce=True)),
        Policy(managed=True, trigger_tokens=1_000, keep_tool_uses=3, clear_inputs=True),
    ],
    ids=str,
)
@pytest.mark.parametrize("summary", [None, "It was about src/module_3.py and table_1."])
def test_under_other_policies(policy: Policy, summary: str | None) -> None:
    core = Core()
    for end in ENDS:
        core.check(body_of(end), 2_500, policy, summary if policy.compaction else None)


def test_the_same_request_again_and_again() -> None:
    core = Core()
    for _ in range(6):
        core.check(body_of(100), 2_500)
    assert core.from_splices >= 3


def test_another_summary_is_another_body() -> None:
    core, policy = Core(), Policy(compaction=True, summary_tokens=200)
    for summary in ("One.", "One.", "One.", "module_3.py", "module_3.py", "One.", None):
        core.check(body_of(100), 2_500, policy, summary)


def test_another_tenant_has_splices_of_its_own() -> None:
    core = Core()
    for tenant in (b"a", b"b", b"a", b"b", b"b"):
        core.check(body_of(100), 2_500, tenant=tenant)


def test_other_fields_before_the_messages_move_the_splices() -> None:
    core = Core()
    for n in range(8):
        request = {"metadata": "x" * (n // 3), "model": "m", "messages": RUN[:100]}
        core.check(msgspec.json.encode(request), 2_500)


def test_a_message_that_changes_is_not_taken_from_before() -> None:
    core = Core()
    for end in ENDS[-12:]:
        core.check(body_of(end), 2_500)
    changed = [dict(message) for message in RUN]
    changed[41]["content"] = "quite other_text v2 " * 20
    for _ in range(3):
        core.check(msgspec.json.encode({"model": "m", "messages": changed}), 2_500)


def test_no_text_is_kept() -> None:
    core = Core()
    for _ in range(4):
        core.check(body_of(100), 2_500)
    (sent,) = core.splices.sent.values()
    assert sent.extract
    splices = [*sent.extract, *[splice for stretch in sent.stretches for splice in stretch.splices]]
    assert all(isinstance(splice, array | Written | int) or not splice.parts for splice in splices)
    assert any(isinstance(splice, array) for splice in splices)


def test_a_beginning_that_is_not_known_has_none() -> None:
    core = Core()
    core.read(body_of(90), Policy(), 2_500)
    _, history, made = core.read(body_of(100), Policy(), 2_500)
    assert isinstance(apply_again(history, made, None, "system", CHAT.format, core.splices), Pieces)
    unknown = msgspec.structs.replace(history, prefix=None)
    assert not isinstance(apply_again(unknown, made, None, "system", CHAT.format, core.splices), Pieces)
