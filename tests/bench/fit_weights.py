"""How the weights of proxy/trimtab/context/estimate/tokens.py were made; rerun it to make them anew.

    uv run --no-project --python 3.11 --with numpy --with scipy --with bpe-openai --with msgspec \\
        python -m tests.bench.fit_weights --root /usr/share --root /usr/include [--hold-out] [--write]

Samples are pieces of the shared corpus, of recorded conversations, of message catalogues in many languages,
of text files below each root, and of made-up data (base64, hex, numbers, random scripts). Truth is
`bpe-openai`'s o200k. The fit minimizes a Huber loss of the relative error in which an under-count costs
`UNDER` times an over-count, since an under-count ends in an overflow and an over-count in a little unused
window. The real-valued optimum is then rounded to 1/64 tokens by coordinate descent. `--hold-out` fits four
times without a quarter of the files and says how far off those are; `--write` puts the tables in place.
"""

from __future__ import annotations

import argparse
import base64
import gettext
import gzip
import json
import os
import random
import re
import string
import sysconfig
import uuid
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import bpe_openai
import numpy as np
from scipy.optimize import minimize

from trimtab.context.estimate import tokens

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT.parent / "shared" / "corpus"
SIZES = (150, 600, 2500, 6000)  # characters of a piece: a line, a message, a page, a small file
SUFFIXES = (
    *(".c", ".cfg", ".css", ".csv", ".h", ".html", ".js", ".json", ".md", ".pl", ".pm", ".py", ".rs", ".rst"),
    *(".sh", ".svg", ".ts", ".txt", ".xml", ".yaml", ".yml"),
)
PER_SUFFIX = 220  # files

UNDER = 2.0  # an under-count costs this many over-counts
HUBER = 0.15  # beyond this relative error the loss grows linearly
GROUP_WEIGHT = {"corpus": 4.0, "transcript": 3.0, "catalogue": 2.0, "made": 1.5, "block": 0.2}
# A text that is like nothing people send: each letter of it has a vowel point and an accent.
FILE_WEIGHT = {"he_bible_pointed.txt": 0.2}

ENCODING = bpe_openai.get_encoding("o200k_base")
RANDOM = random.Random(7)


class Sample(NamedTuple):
    group: str
    name: str
    data: bytes
    truth: int


def sample(group: str, name: str, text: str) -> Iterator[Sample]:
    if text.strip():
        truth = len(ENCODING.encode_ordinary(text))
        if truth >= 4:
            yield Sample(group, name, text.encode(), truth)


def pieces(group: str, name: str, text: str, count: int) -> Iterator[Sample]:
    for size in RANDOM.choices(SIZES, k=count):
        start = RANDOM.randrange(max(1, len(text) - size))
        yield from sample(group, name, text[start : start + size])


def corpus_samples() -> Iterator[Sample]:
    for path in sorted((CORPUS / "texts").glob("*.txt")):
        text = path.read_bytes().decode()
        yield from sample("corpus", path.name, text)
        yield from pieces("corpus", path.name, text, 60)


def message_texts(message: dict[str, Any]) -> Iterator[str]:
    content = message.get("content")
    if isinstance(content, str):
        yield content
    for part in content if isinstance(content, list) else ():
        yield part.get("text") or ""
    for call in message.get("tool_calls") or ():
        yield call["function"]["arguments"]


def transcript_samples() -> Iterator[Sample]:
    for path in sorted((CORPUS / "transcripts").glob("*.json.gz")):
        recorded = json.loads(gzip.decompress(path.read_bytes()))
        messages = recorded["messages"]
        for message in RANDOM.sample(messages, min(400, len(messages))):
            for text in message_texts(message):
                yield from sample("transcript", path.name, text[:20_000])
        for tool in recorded.get("tools") or ():
            yield from sample("tools", path.name, json.dumps(tool))


def files_below(roots: list[Path]) -> list[Path]:
    found = []
    for root in roots:
        for folder, folders, names in os.walk(root):
            folders.sort()
            found += [Path(folder, name) for name in sorted(names)[:300]]
    return [path for path in found if path.is_file() and path.stat().st_size > 600]


def file_samples(files: list[Path]) -> Iterator[Sample]:
    by_suffix = defaultdict(list)
    for path in files:
        by_suffix[path.suffix].append(path)
    for suffix in SUFFIXES:
        for path in RANDOM.sample(by_suffix[suffix], min(PER_SUFFIX, len(by_suffix[suffix]))):
            text = path.read_bytes()[:400_000].decode("utf-8", "replace")
            yield from pieces(suffix, str(path), text, 2)


def catalogue_samples(files: list[Path]) -> Iterator[Sample]:
    by_language = defaultdict(list)
    for path in files:
        if path.suffix == ".mo" and path.parent.name == "LC_MESSAGES":
            by_language[path.parent.parent.name].append(path)
    for language, paths in sorted(by_language.items()):
        lines: list[str] = []
        for path in RANDOM.sample(paths, min(8, len(paths))):
            lines += catalogue_lines(path)
        RANDOM.shuffle(lines)
        text = "\n".join(lines[:6000])
        if len(text) > 3000:
            yield from pieces("catalogue", language, text, 14)


def catalogue_lines(path: Path) -> list[str]:
    with path.open("rb") as opened:
        try:
            entries = gettext.GNUTranslations(opened)._catalog  # type: ignore[attr-defined]
        except (OSError, UnicodeDecodeError, ValueError, IndexError):
            return []
    return [new for old, new in entries.items() if old and isinstance(new, str) and new != old and len(new) > 3]


def drawn(alphabet: str) -> Callable[[int], str]:
    return lambda size: "".join(RANDOM.choices(alphabet, k=size))


def repeated(line: Callable[[], str]) -> Callable[[int], str]:
    def lines(size: int) -> str:
        text = ""
        while len(text) < size:
            text += line() + "\n"
        return text

    return lines


def digits(most: int) -> str:
    return str(RANDOM.randrange(10 ** RANDOM.randrange(1, most)))


def table_row() -> str:
    return "| " + " | ".join(digits(4).rjust(8) for _ in range(6)) + " |"


def timestamp() -> str:
    day, clock = f"20{RANDOM.randrange(10, 30)}-{RANDOM.randrange(1, 13):02}", f"{RANDOM.randrange(86400)}"
    return f"{day}-{RANDOM.randrange(1, 29):02}T{clock[:2]:0>2}:{RANDOM.randrange(60):02}:{RANDOM.randrange(60):02}Z"


EMOJI = "".join(map(chr, [*range(0x1F300, 0x1F650), *range(0x1F680, 0x1F6D0), *range(0x2600, 0x27B0)]))
MADE: dict[str, Callable[[int], str]] = {
    "base64": lambda size: base64.b64encode(RANDOM.randbytes(size)).decode(),
    "base64url": lambda size: base64.urlsafe_b64encode(RANDOM.randbytes(size)).decode(),
    "base64 lines": lambda size: base64.encodebytes(RANDOM.randbytes(size)).decode(),
    "base32": lambda size: base64.b32encode(RANDOM.randbytes(size)).decode(),
    "hex": lambda size: RANDOM.randbytes(size // 2).hex(),
    "capital hex": lambda size: RANDOM.randbytes(size // 2).hex().upper(),
    "hex dump": lambda size: RANDOM.randbytes(size // 3).hex(" "),
    "sha256": repeated(lambda: RANDOM.randbytes(32).hex()),
    "uuid": repeated(lambda: str(uuid.UUID(bytes=RANDOM.randbytes(16)))),
    "uuid json": lambda size: json.dumps(
        [{"id": str(uuid.UUID(bytes=RANDOM.randbytes(16)))} for _ in range(size // 37)]
    ),
    "digits": drawn(string.digits),
    "numbers": lambda size: " ".join(digits(9) for _ in range(size // 5)),
    "floats": lambda size: ", ".join(f"{RANDOM.gauss(0, 10):.{RANDOM.choice((2, 4, 6))}f}" for _ in range(size // 8)),
    "embedding": lambda size: json.dumps([RANDOM.gauss(0, 1) for _ in range(size // 20)]),
    "addresses": repeated(lambda: ".".join(str(RANDOM.randrange(256)) for _ in range(4))),
    "timestamps": repeated(timestamp),
    "table": repeated(table_row),
    "rule": lambda size: RANDOM.choice("-=*#_. ") * size,
    "letters and digits": drawn(string.ascii_letters + string.digits),
    "small letters": drawn(string.ascii_lowercase),
    "capitals": drawn(string.ascii_uppercase),
    "punctuation": drawn(string.punctuation),
    "printable": drawn(string.printable),
    "emoji": drawn(EMOJI),
    "chat": lambda size: " ".join(
        RANDOM.choices(["thanks", "ok", "see you", "😂", "🙏", "❤️", "👍", "🎉"], k=size // 5)
    ),
    "boxes": repeated(lambda: "│ " + "".join(RANDOM.choices("─├└┌┐┘│ █░▒▓", k=30)) + " │"),
    "formulas": drawn("∑∫√∞≤≥≠≈∈∀∃→←⇒αβγδελμπσφωΔΩ xyz=+()"),
    "escapes": lambda size: json.dumps("".join(RANDOM.choices("日本語中文한국어Русский", k=size // 6))),
}
# Letters of blocks that hardly any file at hand is written in, drawn at random: more tokens than real text,
# so that a script never seen is over, not under.
BLOCKS = {"Cherokee": (0x13A0, 0x13F4), "Mongolian": (0x1820, 0x1877), "Syriac": (0x0710, 0x074A),
          "Ethiopic": (0x1200, 0x135A), "Tibetan": (0x0F40, 0x0FBC), "Lao": (0x0E81, 0x0ECD),
          "Thaana": (0x0780, 0x07B1), "Sinhala": (0x0D85, 0x0DDF)}  # fmt: skip


def made_samples() -> Iterator[Sample]:
    for name, make in MADE.items():
        for size in RANDOM.choices((120, 600, 2500), k=30):
            yield from sample("made", name, make(size))
    for name, (first, last) in BLOCKS.items():
        letters = "".join(chr(code) for code in range(first, last) if chr(code).isalpha()) + "  "
        for size in RANDOM.choices((60, 300, 900), k=12):
            yield from sample("block", name, drawn(letters)(size))


def all_samples(roots: list[Path]) -> list[Sample]:
    files = files_below(roots)
    makers = corpus_samples(), transcript_samples(), file_samples(files), catalogue_samples(files), made_samples()
    return [one for maker in makers for one in maker]


def features(samples: list[Sample]) -> np.ndarray:
    """One row a sample: how often each of the 256 pairs, 128 high bytes and 256 blocks of characters is in it."""
    class_of = np.zeros(256, int)
    for number, (_, members) in enumerate(tokens.CLASSES):
        class_of[list(members)] = number
    rows = np.zeros((len(samples), 640), np.float64)
    for row, one in zip(rows, samples, strict=True):
        data = np.frombuffer(one.data, np.uint8)
        classes = class_of[data]
        row[:256] = np.bincount(classes[:-1] * 16 + classes[1:], minlength=256)
        row[256:384] = np.bincount(data[data >= 128] - 128, minlength=128)
        row[384:] = np.bincount(np.frombuffer(one.data.decode().encode("utf-16-le"), np.uint8)[1::2], minlength=256)
    # The block of ASCII is weighed by its pairs; a text of ASCII alone is never looked at by block.
    rows[:, 384] = 0
    return rows


class Problem:
    """The loss of a set of weights over a set of samples."""

    def __init__(self, samples: list[Sample], rows: np.ndarray) -> None:
        truth = np.array([one.truth for one in samples], float)
        self.relative = rows / truth[:, None]
        self.offset = 0.5 / truth  # 1 + floor: half a token above the sum in the mean
        self.shares = shares(samples, truth)

    def loss(self, errors: np.ndarray) -> float:
        size = np.abs(errors)
        huber = np.where(size < HUBER, errors**2 / 2, HUBER * (size - HUBER / 2))
        return float((self.shares * np.where(errors < 0, UNDER, 1.0) * huber).sum())

    def errors(self, weights: np.ndarray) -> np.ndarray:
        return self.relative @ weights + self.offset - 1

    def solve(self, prior: np.ndarray) -> np.ndarray:
        """The best weights, in tokens. The prior holds where no sample says anything."""

        def loss_and_slope(weights: np.ndarray) -> tuple[float, np.ndarray]:
            errors, away = self.errors(weights), weights - prior
            pull = self.shares * np.where(errors < 0, UNDER, 1.0) * np.clip(errors, -HUBER, HUBER)
            return self.loss(errors) + 1e-3 * (away**2).mean(), self.relative.T @ pull + 2e-3 * away / len(away)

        bounds = [(0, tokens.MAX_WEIGHT / tokens.SCALE)] * len(prior)
        options = {"maxiter": 500, "maxfun": 900}
        best = minimize(loss_and_slope, prior, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
        # Characters of ASCII have no block weight of their own.
        best[384] = 0
        return best

    def rounded(self, weights: np.ndarray) -> np.ndarray:
        """Whole 1/64 tokens near `weights`: round, then step single weights by one while it helps."""
        whole = np.minimum(np.rint(weights * tokens.SCALE), tokens.MAX_WEIGHT).astype(int)
        errors = self.errors(whole / tokens.SCALE)
        best = self.loss(errors)
        for index in list(np.argsort(-self.relative.sum(axis=0))[:200]) * 2:
            for step in (-1, 1):
                column = self.relative[:, index] * (step / tokens.SCALE)
                moved = self.loss(errors + column)
                if moved < best and 0 <= whole[index] + step <= tokens.MAX_WEIGHT:
                    whole[index] += step
                    errors, best = errors + column, moved
        return whole


def shares(samples: list[Sample], truth: np.ndarray) -> np.ndarray:
    """What each sample counts: long ones more, many of one file less, groups near to equal; sums to 1."""
    of_file = Counter((one.group, one.name) for one in samples)
    raw = np.sqrt(np.minimum(truth, 400)) / np.sqrt([of_file[one.group, one.name] for one in samples])
    of_group: dict[str, float] = defaultdict(float)
    for one, share in zip(samples, raw, strict=True):
        of_group[one.group] += share
    raw *= [GROUP_WEIGHT.get(one.group, 1.0) / of_group[one.group] ** 0.5 for one in samples]
    raw *= [FILE_WEIGHT.get(one.name, 1.0) for one in samples]
    return raw / raw.sum()


def prior_weights() -> np.ndarray:
    return np.array([0.3] * 256 + [0.05] * 128 + [0.2] * 256)


def held_out_error(samples: list[Sample], rows: np.ndarray) -> None:
    """Fits without a quarter of the files, four times, and prints the relative error of the files left out."""
    fold = np.array([zlib.crc32(f"{one.group}/{one.name}".encode()) % 4 for one in samples])
    guess = np.zeros(len(samples))
    for out in range(4):
        kept = [one for one, number in zip(samples, fold, strict=True) if number != out]
        weights = Problem(kept, rows[fold != out]).solve(prior_weights())
        guess[fold == out] = rows[fold == out] @ weights + 0.5
    print_errors("held out", samples, guess)


def print_errors(title: str, samples: list[Sample], guess: np.ndarray) -> None:
    sums: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(lambda: [0.0, 0.0]))
    for one, tokens_guessed in zip(samples, guess, strict=True):
        sums[one.group][one.name][0] += tokens_guessed
        sums[one.group][one.name][1] += one.truth
    print(f"{title}: per file, |error| median, then the lowest and the highest three")
    for group, files in sums.items():
        errors = sorted((guessed / truth - 1, name) for name, (guessed, truth) in files.items())
        middle = np.median([abs(error) for error, _ in errors])
        ends = ", ".join(f"{Path(name).name} {error:+.0%}" for error, name in errors[:3] + errors[-3:])
        print(f"  {group:11} {len(files):4} files {middle:6.1%}   {ends}")


def write_tables(whole: np.ndarray) -> None:
    """Puts the fitted tables into proxy/trimtab/context/estimate/tokens.py."""
    path = ROOT / "proxy" / "trimtab" / "context" / "tokens.py"
    source = path.read_text()
    pairs = "\n".join("    (" + ", ".join(f"{w:2}" for w in row) + ")," for row in whole[:256].reshape(16, 16))
    high, scripts = (
        "\n".join("    " + ", ".join(f"{w:2}" for w in row) + "," for row in part.reshape(-1, 16))
        for part in (whole[256:384], whole[384:])
    )
    for name, body in (("PAIR_WEIGHTS", pairs), ("HIGH_WEIGHTS", high), ("SCRIPT_WEIGHTS", scripts)):
        table = re.compile(rf"^({name}: [^=]+ = ).*?(?=^\"\"\")", re.MULTILINE | re.DOTALL)
        source = table.sub(lambda found, body=body: f"{found[1]}(\n{body}\n)\n", source)
    path.write_text(source)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, action="append", default=[Path(sysconfig.get_path("stdlib"))])
    parser.add_argument("--hold-out", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    samples = all_samples(options.root)
    rows = features(samples)
    print(len(samples), "samples,", sum(len(one.data) for one in samples) // 1000, "kB")
    if options.hold_out:
        held_out_error(samples, rows)
    problem = Problem(samples, rows)
    whole = problem.rounded(problem.solve(prior_weights()))
    print_errors("fitted", samples, rows @ (whole / tokens.SCALE) + 0.5)
    if options.write:
        write_tables(whole)


if __name__ == "__main__":
    main()
