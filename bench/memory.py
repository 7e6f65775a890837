"""A translator with the memory that it was trained on, against that memory alone, on the pairs that training held out.

    python bench/memory.py RUN [--json]

Writes the training pairs of a run as a TMX and its held-out sources as lines, and translates those as a user would:
`headway translate RUN lines.txt`, without and with `--memory train.tmx`. BLEU (sacreBLEU) of four answers to the same
lines: the source itself; the best match of the memory from 30 % on, or else the source (other bounds, and nothing in
place of the source, score less); the model; the model with the memory; all of that once more for the lines that the
memory has not, but for numbers and codes.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import sacrebleu

from headway.data.memory import Memory
from headway.data.pair import Pair
from headway.data.prepare import KEPT, Corpus
from headway.recipe import load_recipe, resolve_paths
from headway.text.codes import plain

LEAST = 30
HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4"><header srclang="{0}" datatype="plaintext"/><body>\n'
UNIT = '<tu><tuv xml:lang="{}"><seg>{}</seg></tuv><tuv xml:lang="{}"><seg>{}</seg></tuv></tu>\n'


def write_tmx(path: Path, pairs: Sequence[Pair], languages: tuple[str, str]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(HEAD.format(languages[0]))
        for pair in pairs:
            source, target = (escape(plain(side)) for side in (pair.source, pair.target))
            file.write(UNIT.format(languages[0], source, languages[1], target))
        file.write("</body></tmx>\n")


def translated(run: Path, lines: Path, *options: str) -> tuple[list[str], float]:
    """What `headway translate` writes, and the seconds that it took."""
    out, begun = lines.with_suffix(".out"), time.perf_counter()
    command = [sys.executable, "-m", "headway", "translate", str(run), str(lines), "-o", str(out), "-q", *options]
    subprocess.run(command, check=True)
    return out.read_text(encoding="utf-8").removesuffix("\n").split("\n"), time.perf_counter() - begun


def measured(run: Path) -> dict[str, Any]:
    recipe = resolve_paths(load_recipe(run / "recipe.toml"), run)
    data = Corpus(recipe.data, run / "store")
    languages = recipe.data.source_language or "en", recipe.data.target_language or "de"
    kept = [pair for _, pair, fate in data.read() if fate == KEPT]
    sources, references = ([plain(pair[side]) for pair in data.valid] for side in (0, 1))
    memory = Memory.of(kept)
    found = [next(iter(memory.lookup((source,), min_score=LEAST)), None) for source in sources]
    with tempfile.TemporaryDirectory() as folder:
        tmx, lines = Path(folder) / "train.tmx", Path(folder) / "held.txt"
        write_tmx(tmx, kept, languages)
        lines.write_text("".join(f"{source}\n" for source in sources), encoding="utf-8", newline="")
        alone, seconds = translated(run, lines)
        together, more = translated(run, lines, "--memory", str(tmx))
    answers = {
        "the source itself": sources,
        f"the memory alone, from {LEAST} %": [
            source if match is None else plain(match.target) for source, match in zip(sources, found, strict=True)
        ],
        "the model alone": alone,
        "the model with the memory": together,
    }
    new = [number for number, match in enumerate(found) if match is None or not match.usable]
    tables = {"all lines": range(len(sources)), "lines that the memory has not": new}
    scores = {
        f"{name}, {len(some):,}": {
            answer: round(bleu([texts[at] for at in some], [references[at] for at in some]), 2)
            for answer, texts in answers.items()
        }
        for name, some in tables.items()
    }
    return {"pairs": len(kept), "bleu": scores, "seconds": {"alone": seconds, "with the memory": more}}


def rows(found: dict[str, Any]) -> Iterator[dict[str, object]]:
    """The model with the memory against what there is without it."""
    for work, scores in found["bleu"].items():
        *peers, ours = scores.items()
        for peer, theirs in peers:
            row = {"work": work, "peer": peer, "ours": ours[1], "theirs": theirs, "unit": "BLEU"}
            yield {**row, "ratio": ours[1] / theirs}


def bleu(texts: Sequence[str], references: Sequence[str]) -> float:
    return sacrebleu.corpus_bleu(texts, [references]).score


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measured(options.run)
    if options.json:
        print(*map(json.dumps, rows(found)), sep="\n")
        return
    print(f"{found['pairs']:,} pairs in the memory")
    for name, scores in found["bleu"].items():
        print(f"\n{name}:")
        for answer, score in scores.items():
            print(f"  {score:6.2f}  {answer}")
    print(f"\nseconds: {found['seconds']}")


if __name__ == "__main__":
    main()
