"""Golden plans: what becomes of each message of some recorded conversations, one letter a message.

python -m tests.context.golden        writes tests/data/plans/ again; look at the difference before you commit it

.  as it came     T  truncated     C  cleared     A  arguments cleared
S  summarized     D  dropped       Q  squeezed    |  the note or summary stands before this message
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

from trimtab.context.edits import Plan
from trimtab.context.plan.plan import plan
from trimtab.context.policy import Policy, ShapingSettings
from trimtab.context.read.history import history
from trimtab.context.read.memo import Memo

PLANS = Path(__file__).parents[1] / "data" / "plans"
LETTERS = {
    "truncated": "T",
    "cleared": "C",
    "inputs_cleared": "A",
    "summarized": "S",
    "dropped": "D",
    "squeezed": "Q",
}
_WIDTH = 100

# Written out, so that a new default does not change a golden plan. New weights of the estimate may change one.
_SHAPING = ShapingSettings(
    max_message_chars=20_000,
    clear_batch=4,
    keep_share=0.25,
    target=0.5,
    pin_share=0.5,
    keep_recent=4,
    extract_share=0.4,
    result_extract=80,
)
_CHAT = "aider_chat_1"
_AGENT = "oneturn_pi_large"
_SERVICE = "joined_tau_airline_trial0"
_FUNCTIONS = "toolbench_3_ChatGPT_DFS_woFilter_w2"

# name of the golden plan -> recording, policy, budget in tokens
GOLDEN: dict[str, tuple[str, Policy, int]] = {
    "chat-dropped": (_CHAT, Policy(_SHAPING), 24_000),
    "chat-summarized": (_CHAT, Policy(_SHAPING, compaction=True), 24_000),
    "agent-one-turn": (_AGENT, Policy(_SHAPING), 24_000),
    "agent-one-turn-summarized": (_AGENT, Policy(_SHAPING, compaction=True), 24_000),
    "service-many-turns": (_SERVICE, Policy(_SHAPING), 16_000),
    "service-managed": (_SERVICE, Policy(_SHAPING, managed=True, trigger_tokens=12_000, keep_tool_uses=3), 64_000),
    "functions": (_FUNCTIONS, Policy(_SHAPING), 4_000),
}


def picture(found: Plan, messages: int) -> str:
    """The plan as lines of letters under a line of numbers."""
    letters = ["."] * messages
    for edit in found.edits:
        letters[edit.index] = LETTERS[edit.stage]
    if found.gap is not None:
        letters[found.gap.index] = "|" + letters[found.gap.index]
    drawn = "".join(letters)
    lines = [drawn[at : at + _WIDTH] for at in range(0, len(drawn), _WIDTH)]
    head = f"messages={messages} original={found.original} sent={found.sent} budget={found.budget} fits={found.fits}"
    return "\n".join([head, f"segments={[(s.start, s.stop) for s in found.summary]}", *lines, ""])


def drawn(name: str, corpus: Path) -> str:
    """The golden plan of that name, made now from the recording."""
    recording, policy, budget = GOLDEN[name]
    with gzip.open(corpus / "transcripts" / f"{recording}.json.gz") as file:
        recorded = json.load(file)
    raws = [json.dumps(message, ensure_ascii=False).encode() for message in recorded["messages"]]
    extras = [json.dumps(recorded["tools"], ensure_ascii=False).encode()] if recorded.get("tools") else []
    memo = Memo()
    return picture(plan(history(raws, extras, memo), policy, budget, memo), len(raws))


def main() -> None:
    corpus = Path(__file__).resolve().parents[3] / "shared" / "corpus"
    if not corpus.is_dir():
        sys.exit("the recordings (../shared/corpus) do not lie beside this checkout")
    PLANS.mkdir(parents=True, exist_ok=True)
    for name in GOLDEN:
        (PLANS / f"{name}.txt").write_text(drawn(name, corpus))


if __name__ == "__main__":
    main()
