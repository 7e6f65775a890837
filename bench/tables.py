"""The tables of docs/results.md, made of the rows in bench/results/*.jsonl.

    python bench/tables.py [--check]

A file NAME.jsonl, one JSON object a line as the benches print it with --json, becomes the table between the markers
`<!-- NAME -->` and `<!-- /NAME -->`, which say that there is no run yet where there is no file. `--check` writes
nothing, and fails where the page is not what the rows say; so does tests/test_results.py, which reads the tables with
code of its own.
"""

import argparse
import json
import math
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HOME = Path(__file__).parents[1]
PAGE, RESULTS = HOME / "docs" / "results.md", HOME / "bench" / "results"

Columns = dict[str, tuple[str, str]]

COLUMNS: dict[str, Columns] = {
    "multi30k": {
        "recipe": ("recipe", ""),
        "commit": ("commit", ""),
        "seed": ("seed", ""),
        "pair": ("pair", ""),
        "steps": ("updates", ",d"),
        "minutes": ("trained in, min", ".1f"),
        "beam": ("beam", ""),
        "test": ("test set", ""),
        "reference_tokens": ("tokens", ",d"),
        "bleu_tok_lc": ("BLEU, lower-cased tokens", ".2f"),
        "bleu": ("sacreBLEU, plain text", ".2f"),
        "signature": ("signature", ""),
    },
    "multi30k-decoders": {
        "recipe": ("recipe", ""),
        "decoder": ("decoder", ""),
        "commit": ("commit", ""),
        "seed": ("seed", ""),
        "steps": ("updates", ",d"),
        "minutes": ("trained in, min", ".1f"),
        "threads": ("threads", ""),
        "beam": ("beam", ""),
        "bleu": ("BLEU test2016", ".2f"),
        "chrf": ("chrF2", ".2f"),
        "valid_bleu": ("BLEU val", ".2f"),
        "signature": ("signature", ""),
    },
    "train": {
        "work": ("shape", ""),
        "peer": ("peer", ""),
        "commit": ("commit", ""),
        "threads": ("threads", ""),
        "ours": ("Headway, tokens/s", ",.0f"),
        "theirs": ("peer, tokens/s", ",.0f"),
        "ratio": ("ratio", ".2f"),
        "our_mib": ("Headway, MiB", ",.0f"),
        "their_mib": ("peer, MiB", ",.0f"),
    },
    "questions": {
        "question": ("question", ""),
        "answer": ("answer", ""),
        "commit": ("commit", ""),
        "seed": ("seed", ""),
        "steps": ("updates", ",d"),
        "minutes": ("trained in, min", ".1f"),
        "parameters": ("parameters", ",d"),
        "bleu_tok_lc": ("BLEU test2016, lower-cased tokens", ".2f"),
    },
    "family": {
        "recipe": ("recipe", ""),
        "begun_from": ("begun from", ""),
        "commit": ("commit", ""),
        "seed": ("seed", ""),
        "steps": ("updates", ",d"),
        "minutes": ("trained in, min", ".1f"),
        "parameters": ("parameters", ",d"),
        "figure": ("figure", ""),
        "value": ("", ".2f"),
    },
    "enja": {
        "recipe": ("recipe", ""),
        "commit": ("commit", ""),
        "seed": ("seed", ""),
        "steps": ("updates", ",d"),
        "minutes": ("trained in, min", ".1f"),
        "beam": ("beam", ""),
        "lines": ("lines", ""),
        "num_lines": ("how many", ",d"),
        "bleu_13a": ("BLEU, words as given", ".2f"),
        "bleu_ja_mecab": ("BLEU, cut by MeCab", ".2f"),
        "chrf": ("chrF2", ".2f"),
        "signature": ("signatures", ""),
    },
}
"""For each table the key of each column, its heading and its format. `minutes` is `wall_s` in minutes, and a signature
is a number that is explained below the table."""

FITTING = {
    "": (str, int),
    ",d": (int,),
    ",.0f": (int, float),
    ".1f": (int, float),
    ".2f": (int, float),
}
"""What a format is for: these types and none that is derived from them, as True is from int."""
PARTS = {
    "multi30k": ("test", {"test2016", "test2017", "test2018", "mscoco"}),
    "enja": ("lines", {"all", "unseen"}),
}
"""What a run has a row each for: the key, and its values."""
RUN = ("recipe", "cell", "begun_from", "commit", "seed", "pair", "beam", "work", "threads", "peer")
"""The keys, of those that a table has, which tell a run from others."""
TOKENS = {("en-de", "test2016"): 12_103}
"""Of a reference, as the published score counts them."""

EMPTY = "No run yet.\n"
MARKED = re.compile(r"(?P<open><!-- (?P<name>[\w-]+) -->\n).*?(?P<close><!-- /(?P=name) -->)", re.DOTALL)


def commit() -> str:
    """Of the code that scores or measures, `-dirty` where it was changed since."""
    command = ["git", "--no-optional-locks", "describe", "--always", "--dirty", "--exclude=*"]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def read_rows(path: Path, columns: Columns) -> list[dict[str, Any]]:
    """The rows of a file. Raises ValueError with every line that is no row with these columns, or else with all that
    `misfits` finds."""
    rows, faults = [], []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            row = json.loads(line) | {}
            rows.append(row | {"minutes": row["wall_s"] / 60} if fits(row.get("wall_s"), ".1f") else row)
        except (ValueError, TypeError):
            faults.append(f"line {number}: no JSON object: {line[:60]}")
            continue
        wrong = [key for key, (_, spec) in columns.items() if not fits(rows[-1].get(key), spec)]
        faults += [f"line {number}: {key} is missing, or of the wrong kind" for key in wrong]
    if not rows and not faults:
        faults = ["no row is in it"]
    if faults := faults or misfits(rows, *PARTS.get(path.stem, ("", set()))):
        raise ValueError("\n".join(f"{path}, {fault}" for fault in faults))
    return rows


def fits(value: object, spec: str) -> bool:
    return type(value) in FITTING[spec] and (not isinstance(value, float) or math.isfinite(value))


def misfits(rows: Sequence[dict[str, Any]], key: str, wanted: set[str]) -> list[str]:
    """Rows that are there twice, runs whose rows are not one for each of the `wanted` values of `key` (if any), and
    tokens that are not those of the published text."""
    faults, runs = [], dict[tuple[object, ...], list[str]]()
    for row in rows:
        runs.setdefault(tuple(row[name] for name in RUN if name in row), []).append(row.get(key, ""))
        counted = row.get("reference_tokens")
        published = TOKENS.get((row.get("pair"), row.get("test")), counted)
        if counted != published:
            faults.append(f"{row['recipe']}, {row['test']}: {counted:,} tokens, {published:,} in the published text")
    for run, found in runs.items():
        told = ", ".join(map(str, run))
        if len(found) > len(set(found)):
            faults.append(f"{told}: a row is there twice")
        if wanted and set(found) != wanted:
            faults.append(f"{told}: rows of {key} {', '.join(found)}; a run has those of {', '.join(sorted(wanted))}")
    return faults


def table(rows: Sequence[dict[str, Any]], columns: Columns) -> str:
    """A Markdown table of rows, and below it what the numbers of its signatures mean."""
    signatures = list(dict.fromkeys(row["signature"] for row in rows)) if "signature" in columns else []
    lines = [[heading for heading, _ in columns.values()], ["---"] * len(columns)]
    for row in rows:
        shown = row | ({"signature": signatures.index(row["signature"]) + 1} if signatures else {})
        lines.append([format(shown[key], spec).replace("|", "\\|") for key, (_, spec) in columns.items()])
    told = "".join(f"\n{number}. `{signature}`" for number, signature in enumerate(signatures, 1))
    made = "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"
    return made + (f"\nSignatures of sacreBLEU:\n{told}\n" if signatures else "")


def page(text: str, results: Path) -> str:
    """The page with its tables made anew. Raises ValueError where files, columns and markers do not pair up."""
    files = {path.stem: path for path in sorted(results.glob("*.jsonl"))}
    marked = [found["name"] for found in MARKED.finditer(text)]
    if sorted(marked) != sorted(COLUMNS) or not files.keys() <= COLUMNS.keys():
        known = ", ".join(sorted(COLUMNS))
        told = f"results of {', '.join(files)}; markers of {', '.join(marked)}; columns of {known}"
        raise ValueError(f"{told}: a file of results needs its columns here, and each of these its markers on the page")
    made = {name: table(read_rows(path, COLUMNS[name]), COLUMNS[name]) for name, path in files.items()}
    return MARKED.sub(lambda found: f"{found['open']}\n{made.get(found['name'], EMPTY)}\n{found['close']}", text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where the page is out of date")
    options = parser.parse_args()
    text = PAGE.read_text(encoding="utf-8")
    try:
        made = page(text, RESULTS)
    except ValueError as error:
        sys.exit(str(error))
    if not options.check:
        PAGE.write_text(made, encoding="utf-8", newline="")
    elif made != text:
        sys.exit(f"{PAGE}: is not what {RESULTS} says; run python bench/tables.py")


if __name__ == "__main__":
    main()
