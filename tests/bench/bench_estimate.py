"""How fast and how close the estimate is, against the tokenizer `bpe-openai` in the same run.

    python -m tests.bench.bench_estimate [--corpus DIR]

First table: megabytes a second by kind of text, best of seven, and the ratio; a small text is a usual message
of 400 characters. Second table: relative error of the estimate and of two rules of thumb for each text of the
corpus, against its true o200k count. Third: the same of whole conversations.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import process_time
from timeit import timeit

import bpe_openai

from trimtab.context.estimate.tokens import text_tokens

CORPUS = Path(__file__).resolve().parents[2].parent / "shared" / "corpus"
ENCODING = bpe_openai.get_encoding("o200k_base")
SPEED_OF = ["en_novel.txt", "json_indented.txt", "base64_mime.txt", "udhr_latin_accents.txt", "ru_book_prose.txt"]
SPEED_OF += ["zh_python_docs.txt"]


def count(text: str) -> int:
    return len(ENCODING.encode_ordinary(text))


def speeds(text: str, times: int) -> tuple[float, float]:
    """Megabytes of UTF-8 a second of CPU, of the estimate and of the tokenizer: best of seven, by turns."""
    runs = [(text_tokens, times), (count, max(1, times // 20))]
    best = [min(rounds) for rounds in zip(*([cpu(*run, text) for run in runs] for _ in range(7)), strict=True)]
    return len(text.encode()) / best[0] / 1e6, len(text.encode()) / best[1] / 1e6


def cpu(measured: Callable[[str], int], times: int, text: str) -> float:
    return timeit(lambda: measured(text), number=times, timer=process_time) / times


def print_speeds(texts: dict[str, str]) -> None:
    print(f"{'':24} {'estimate':>9} {'tokenizer':>10} {'ratio':>6}   MB/s, characters")
    for name in SPEED_OF:
        # The tokenizer refuses to give more than 200,000 tokens at once.
        for size, text, times in (("200,000", (texts[name] * 5)[:200_000], 20), ("400", texts[name][5000:5400], 2000)):
            ours, theirs = speeds(text, times)
            print(f"{name:24} {ours:9.0f} {theirs:10.1f} {ours / theirs:6.0f}   {size}")


def rule_of_thumb(text: str, cjk: float, other: float) -> float:
    """Tokens at 4 ASCII characters each, and so many characters of CJK or of anything else each."""
    plain = sum(char < "\x80" for char in text)
    wide = sum("\u2e80" <= char <= "\ud7af" or "\uf900" <= char <= "\ufaff" for char in text)
    return plain / 4 + wide / cjk + (len(text) - plain - wide) / other


def print_errors(texts: dict[str, str], truth: dict[str, dict[str, int]]) -> None:
    print(f"\n{'':26} {'estimate':>9} {'4 / 1.5':>8} {'4 / 1 / 2':>9}")
    rows = []
    for name, text in texts.items():
        guesses = text_tokens(text), rule_of_thumb(text, 1.5, 1.5), rule_of_thumb(text, 1, 2)
        rows.append([guess / truth[name]["o200k"] - 1 for guess in guesses])
        print(f"{name:26} {rows[-1][0]:+9.1%} {rows[-1][1]:+8.1%} {rows[-1][2]:+9.1%}")
    columns = [[abs(error) for error in column] for column in zip(*rows, strict=True)]
    print(f"{'median |error|':26} {median(columns[0]):9.1%} {median(columns[1]):8.1%} {median(columns[2]):9.1%}")
    print(f"{'worst |error|':26} {max(columns[0]):9.1%} {max(columns[1]):8.1%} {max(columns[2]):9.1%}")
    for label, column in (("4 / 1.5", 1), ("4 / 1 / 2", 2)):
        beaten = [name for name, row in zip(texts, rows, strict=True) if abs(row[column]) < abs(row[0])]
        print(f"closer by {label}: {len(beaten)} ({', '.join(beaten)})")


def print_conversations(folder: Path) -> None:
    errors = {}
    for path in sorted(folder.glob("*.json.gz")):
        texts = [
            text for message in json.loads(gzip.decompress(path.read_bytes()))["messages"] for text in said(message)
        ]
        errors[path.name] = sum(map(text_tokens, texts)) / sum(map(count, texts)) - 1
    worst = sorted(errors.items(), key=lambda item: abs(item[1]))[-3:]
    print(f"\n{len(errors)} conversations: median |error| {median(map(abs, errors.values())):.1%}, worst", end=" ")
    print(", ".join(f"{name} {error:+.1%}" for name, error in reversed(worst)))


def said(message: dict[str, object]) -> list[str]:
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    calls = message.get("tool_calls")
    named = [call["function"] for call in calls] if isinstance(calls, list) else []
    return [part.get("text") or "" for part in parts] + [call[key] for call in named for key in ("name", "arguments")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, default=CORPUS)
    corpus = parser.parse_args().corpus
    truth = json.loads((corpus / "token_truth.json").read_text())
    texts = {name: (corpus / "texts" / name).read_bytes().decode() for name in sorted(truth)}
    print_speeds(texts)
    print_errors(texts, truth)
    print_conversations(corpus / "transcripts")


if __name__ == "__main__":
    main()
