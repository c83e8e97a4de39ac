"""The estimate against true o200k counts, and the laws it keeps for every text."""

from __future__ import annotations

import base64
import gzip
import json
import random
import uuid
from itertools import pairwise
from pathlib import Path
from statistics import median

import bpe_openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.context.estimate import tokens
from trimtab.context.estimate.tokens import between, bytes_tokens, text_tokens, weight

ENCODING = bpe_openai.get_encoding("o200k_base")
RANDOM = random.Random(5)
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=300)  # lone surrogates too
LONG_TEXT = st.builds(lambda text, times: text * times, ANY_TEXT, st.integers(0, 200))


def relative_error(text: str) -> float:
    return text_tokens(text) / len(ENCODING.encode_ordinary(text)) - 1


def corpus_errors(shared: Path) -> dict[str, float]:
    truth = json.loads((shared / "corpus" / "token_truth.json").read_text())
    texts = {name: (shared / "corpus" / "texts" / name).read_bytes().decode() for name in truth}
    return {name: text_tokens(texts[name]) / counts["o200k"] - 1 for name, counts in truth.items()}


# -- how close


def test_half_of_the_corpus_is_within_eleven_percent_and_nothing_is_far_under(shared: Path) -> None:
    errors = corpus_errors(shared)
    assert median(map(abs, errors.values())) <= 0.11
    assert {name: error for name, error in errors.items() if error < -0.35} == {}
    assert {name: error for name, error in errors.items() if error > 0.50} == {}


def test_the_corpus_is_closer_than_by_the_rules_of_thumb(shared: Path) -> None:
    truth = json.loads((shared / "corpus" / "token_truth.json").read_text())
    ours, thumbs = corpus_errors(shared), {"other": 1.5, "cjk": 1.0}
    for cjk, other in ((thumbs["other"], thumbs["other"]), (thumbs["cjk"], 2.0)):
        theirs = {}
        for name, counts in truth.items():
            text = (shared / "corpus" / "texts" / name).read_bytes().decode()
            theirs[name] = rule_of_thumb(text, cjk, other) / counts["o200k"] - 1
        assert median(map(abs, ours.values())) < median(map(abs, theirs.values())) / 2
        # A rule of thumb hits some file by luck, not many.
        assert sum(abs(ours[name]) > abs(error) + 0.02 for name, error in theirs.items()) <= len(theirs) // 5


def rule_of_thumb(text: str, cjk: float, other: float) -> float:
    """ASCII 4 characters a token, CJK and the rest by so many characters a token."""
    wide = sum("\u2e80" <= char <= "\ud7af" or "\uf900" <= char <= "\ufaff" for char in text)
    ascii_only = sum(char < "\x80" for char in text)
    return ascii_only / 4 + wide / cjk + (len(text) - wide - ascii_only) / other


def test_whole_conversations_are_within_a_tenth(shared: Path) -> None:
    truth = json.loads((shared / "corpus" / "transcript_truth.json").read_text())
    errors = {}
    for path in sorted((shared / "corpus" / "transcripts").glob("*.json.gz")):
        messages = json.loads(gzip.decompress(path.read_bytes()))["messages"]
        counts = truth[path.name]["o200k"] if path.name in truth else None
        counted = sum(counts["per_message"]) if counts else sum(map(true_tokens, messages))
        errors[path.name] = sum(map(message_tokens, messages)) / counted - 1
    assert median(map(abs, errors.values())) <= 0.05
    assert {name: error for name, error in errors.items() if not -0.12 < error < 0.15} == {}


def message_tokens(message: dict[str, object]) -> int:
    return sum(map(text_tokens, message_texts(message)))


def true_tokens(message: dict[str, object]) -> int:
    return sum(len(ENCODING.encode_ordinary(text)) for text in message_texts(message))


def message_texts(message: dict[str, object]) -> list[str]:
    """What the truth counts: content, and names and arguments of calls."""
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    calls = message.get("tool_calls")
    named = [call["function"] for call in calls] if isinstance(calls, list) else []
    return [part.get("text") or "" for part in parts] + [call[key] for call in named for key in ("name", "arguments")]


MACHINE_MADE = {
    "base64": lambda: base64.b64encode(RANDOM.randbytes(3000)).decode(),
    "base64 of a URL": lambda: base64.urlsafe_b64encode(RANDOM.randbytes(3000)).decode(),
    "base64 in lines": lambda: base64.encodebytes(RANDOM.randbytes(3000)).decode(),
    "base32": lambda: base64.b32encode(RANDOM.randbytes(3000)).decode(),
    "hex": lambda: RANDOM.randbytes(3000).hex(),
    "capital hex": lambda: RANDOM.randbytes(3000).hex().upper(),
    "spaced hex": lambda: RANDOM.randbytes(3000).hex(" "),
    "digits": lambda: str(RANDOM.randrange(10**3999, 10**4000)),
    "numbers": lambda: " ".join(str(RANDOM.randrange(10**6)) for _ in range(600)),
    "floats": lambda: json.dumps([RANDOM.gauss(0, 1) for _ in range(300)]),
    "uuids": lambda: "\n".join(str(uuid.UUID(bytes=RANDOM.randbytes(16))) for _ in range(100)),
    "minified code": lambda: ";".join(
        f"function {n}({a},{b}){{return {a}.{n}[{b}]?{b}+{a}:e({n},!{RANDOM.randrange(9)})}}"
        for n, a, b in (RANDOM.choices("abcdefghijkmnopqrst", k=3) for _ in range(80))
    ),
}


@pytest.mark.parametrize("kind", MACHINE_MADE)
def test_what_machines_make_does_not_collapse(kind: str) -> None:
    assert -0.35 < relative_error(MACHINE_MADE[kind]()) < 0.6


# What one character costs at most or at least, as people who were hit by characters / 4 ask for it.
PROSE = [
    ("Chinese", "我们在星期三讨论了新的计划,并决定下个月开始实施。" * 40),
    ("Japanese", "会議は水曜日に行われ、新しい計画を来月から始めることになりました。" * 40),
    ("Korean", "우리는 수요일에 새로운 계획을 논의하고 다음 달부터 시작하기로 했습니다. " * 40),
    ("Russian", "В среду мы обсудили новый план и решили начать в следующем месяце. " * 40),
    ("Arabic", "ناقشنا الخطة الجديدة يوم الأربعاء وقررنا أن نبدأ في الشهر القادم. " * 40),
    ("Hindi", "हमने बुधवार को नई योजना पर चर्चा की और अगले महीने शुरू करने का फैसला किया। " * 40),
    ("Thai", "เราได้หารือเกี่ยวกับแผนใหม่ในวันพุธและตัดสินใจเริ่มในเดือนหน้า " * 40),
    ("Hebrew", "ביום רביעי דנו בתוכנית החדשה והחלטנו להתחיל בחודש הבא. " * 40),
    ("Greek", "Την Τετάρτη συζητήσαμε το νέο σχέδιο και αποφασίσαμε να αρχίσουμε. " * 40),
    ("German", "Am Mittwoch haben wir den neuen Plan besprochen und fangen im Mai an. " * 40),
    ("English", "On Wednesday we talked about the new plan and agreed to start in May. " * 40),
    ("emoji", "👍 🎉 😂 🙏 🔥 " * 40),
]


@pytest.mark.parametrize(("language", "text"), PROSE, ids=[language for language, _ in PROSE])
def test_prose_of_any_script_is_hardly_under(language: str, text: str) -> None:
    assert -0.25 < relative_error(text) < 1.0


def test_forty_thousand_characters_of_chinese_do_not_pass_for_ten_thousand_tokens() -> None:
    text = ("中国的历史悠久,文化丰富,人民勤劳。" * 3000)[:40_000]
    assert text_tokens(text) > 0.5 * len(text)


# -- laws


@pytest.mark.parametrize(
    ("text", "least"), [("", 0), (" ", 1), ("a", 1), ("\n", 1), ("\x00", 1), ("\ud800", 1), ("😀", 1), ("ü", 1)]
)
def test_only_the_empty_text_is_nothing(text: str, least: int) -> None:
    assert text_tokens(text) >= least
    assert (text_tokens(text) == 0) == (text == "")


@given(LONG_TEXT)
def test_any_text_has_a_size_and_only_the_empty_one_has_none(text: str) -> None:
    assert (text_tokens(text) > 0) == bool(text)


@given(LONG_TEXT, LONG_TEXT)
def test_appending_adds_what_is_appended(text: str, more: str) -> None:
    whole, parts = text_tokens(text + more), text_tokens(text) + text_tokens(more)
    assert abs(whole - parts) <= 2
    assert whole >= text_tokens(text)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_bytes_and_text_weigh_the_same(text: str) -> None:
    assert bytes_tokens(text.encode()) == text_tokens(text)


@given(st.builds(lambda data, times: data * times, st.binary(), st.integers(1, 500)), st.binary())
def test_any_bytes_have_a_size_that_appending_does_not_lessen(data: bytes, more: bytes) -> None:
    assert bytes_tokens(data + more) >= bytes_tokens(data) >= (1 if data else 0)


@pytest.mark.parametrize("length", [2047, 2048, 2049, 2050, 4096, 4097, 100_001])
@pytest.mark.parametrize("unit", ["a", "zZ9", "ж", "한", "😀", "\n#", "\u1780"])
def test_a_border_of_blocks_is_like_any_other_place(unit: str, length: int) -> None:
    data = (unit * length).encode()[:length]
    pairs = sum(naive_pair(*pair) for pair in pairwise(data))
    high = sum(tokens.HIGH_WEIGHTS[byte - 128] for byte in data if byte >= 128)
    units = data.decode("utf-8", "ignore").encode("utf-16-le")[1::2]
    scripts = sum(tokens.SCRIPT_WEIGHTS[byte] for byte in units)  # 0 for ASCII
    assert bytes_tokens(data) == 1 + (pairs + high + scripts) // tokens.SCALE


def naive_pair(first: int, second: int) -> int:
    row, column = (
        next(number for number, (_, members) in enumerate(tokens.CLASSES) if byte in members)
        for byte in (first, second)
    )
    return tokens.PAIR_WEIGHTS[row][column]


# -- the tables


def test_every_byte_is_in_exactly_one_class() -> None:
    assert sorted(byte for _, members in tokens.CLASSES for byte in members) == list(range(256))


def test_no_weight_can_carry_a_block_over_the_modulus() -> None:
    flat = [weight for row in tokens.PAIR_WEIGHTS for weight in row]
    assert ([len(row) for row in tokens.PAIR_WEIGHTS], len(tokens.HIGH_WEIGHTS)) == ([16] * 16, 128)
    assert len(tokens.SCRIPT_WEIGHTS) == 256
    assert all(0 <= one <= tokens.MAX_WEIGHT for one in [*flat, *tokens.HIGH_WEIGHTS, *tokens.SCRIPT_WEIGHTS])
    assert tokens._RUN * tokens.MAX_WEIGHT < 65_521


def test_ascii_has_no_script_weight_so_that_it_costs_the_same_beside_other_scripts() -> None:
    assert tokens.SCRIPT_WEIGHTS[0] == 0


@given(st.text(), st.text())
def test_texts_weigh_together_what_they_weigh_apart_and_between(one: str, other: str) -> None:
    first, second = one.encode("utf-8", "surrogatepass"), other.encode("utf-8", "surrogatepass")
    border = between(first[-1], second[0]) if first and second else 0
    assert weight(first + second) == weight(first) + border + weight(second)
