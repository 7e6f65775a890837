"""The store: what goes in comes out, whatever happens to the process and the disk; and the pairs that go in."""

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import Toy
from headway import api, training
from headway.cli import overrides
from headway.config import BPEConfig, CleanConfig, CorpusConfig, DataConfig
from headway.data import prepare
from headway.data import store as store_module
from headway.data.batch import Examples
from headway.data.pair import Pair
from headway.data.prepare import HELD, KEPT, Corpus
from headway.data.store import Build, Digests, Row, Shard, digest, pack, stored
from headway.data.tally import Tally
from headway.recipe import load_recipe, parse_recipe
from headway.text.codes import Code, plain
from headway.text.tokenizer import Tokenizer, TokenizerPair


def rows_of(count: int, seed: int = 3) -> list[Row]:
    rng = np.random.default_rng(seed)
    return [
        Row(number % 3, 7 * number, *(rng.integers(4, 60_000, rng.integers(0, 9)).tolist() for _ in range(2)))
        for number in range(count)
    ]


def build_of(rows: list[Row], key: str = "k", dtype: str = "uint16", block: int = 4, after: int | None = None) -> Build:
    """A build of these rows in blocks, every third pair left out. after: is killed behind so many."""

    def blocks(read: int, tally: Tally) -> Iterator[tuple[int, list[Row]]]:
        for start in range(read, len(rows), block):
            if after is not None and start >= after:
                os.kill(os.getpid(), signal.SIGKILL)
            part = range(start, min(start + block, len(rows)))
            for number in part:
                if number % 3 == 2:
                    tally.add("too_long", f"line {number}")
            yield part.stop, [rows[number] for number in part if number % 3 != 2]

    return Build(key, dtype, blocks)


def joined(shards: list[Shard]) -> list[Row]:
    examples = Examples(shards, corpora=(0, 1, 2))
    return [examples[index] for index in range(len(examples))]


def kept(rows: list[Row]) -> list[Row]:
    return [row for number, row in enumerate(rows) if number % 3 != 2]


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "SHARD_TOKENS", 40)


@settings(deadline=None, max_examples=30)
@given(
    count=st.integers(0, 60),
    dtype=st.sampled_from(["uint16", "uint32"]),
    block=st.integers(1, 13),
    seed=st.integers(0, 9),
)
def test_what_is_stored_is_what_a_shard_in_memory_holds(
    tmp_path_factory: pytest.TempPathFactory, count: int, dtype: str, block: int, seed: int
) -> None:
    rows, folder = rows_of(count, seed), tmp_path_factory.mktemp("store")
    build = build_of(rows, dtype=dtype, block=block)
    shards, tally = stored(folder, build)
    assert joined(shards) == joined([pack(kept(rows))]) == kept(rows)
    assert {shard.sources.dtype for shard in shards} == {np.dtype(dtype)}
    assert sum(tally.counts.values()) == len(rows) // 3

    def never(read: int, tally: Tally) -> Iterator[tuple[int, list[Row]]]:
        raise AssertionError("it is built already")

    again, told = stored(folder, build._replace(rows=never))
    assert joined(again) == kept(rows)
    assert told == tally


def test_ids_beyond_sixteen_bits_are_kept_in_thirty_two(tmp_path: Path) -> None:
    rows = [Row(0, 1, [70_000, 5], [2**31])]
    assert joined(stored(tmp_path, build_of(rows, dtype="uint32"))[0]) == rows


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


KILLED = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from headway.data import store
from test_store import build_of, rows_of
store.SHARD_TOKENS = 40
store.stored(Path(sys.argv[1]), build_of(rows_of(80), after=int(sys.argv[2])))
"""


def test_a_build_that_is_killed_goes_on_after_the_last_whole_shard(tmp_path: Path) -> None:
    rows = rows_of(80)
    stored(tmp_path / "whole", build_of(rows))
    script = KILLED.format(tests=str(Path(__file__).parent))
    done = subprocess.run([sys.executable, "-c", script, tmp_path / "broken", "60"], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    (tmp_path / "broken" / ".00009.shard.1.tmp").write_bytes(b"half")
    begun = json.loads((tmp_path / "broken" / "manifest.json").read_bytes())
    assert not begun["complete"]
    assert begun["shards"]
    asked, build = [], build_of(rows)

    def noted(read: int, tally: Tally) -> Iterator[tuple[int, list[Row]]]:
        asked.append(read)
        return build.rows(read, tally)

    shards, tally = stored(tmp_path / "broken", build._replace(rows=noted))
    assert asked == [begun["shards"][-1]["read"]]
    assert asked[0] > 40
    assert joined(shards) == kept(rows)
    assert tally.counts == {"too_long": 26}
    assert content(tmp_path / "broken") == content(tmp_path / "whole")


def damage_shard(folder: Path) -> Path:
    path = folder / "00001.shard"
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(bytes(data))
    return path


def cut_shard(folder: Path) -> Path:
    path = folder / "00001.shard"
    path.write_bytes(path.read_bytes()[:-5])
    return path


def lose_shard(folder: Path) -> Path:
    (folder / "00002.shard").unlink()
    return folder / "00002.shard"


def swap_shards(folder: Path) -> Path:
    (folder / "00000.shard").write_bytes((folder / "00001.shard").read_bytes())
    return folder / "00000.shard"


def break_manifest(folder: Path) -> Path:
    (folder / "manifest.json").write_text("{")
    return folder / "manifest.json"


def rename_store(folder: Path) -> Path:
    path = folder / "manifest.json"
    path.write_text(path.read_text().replace('"k"', '"other"'))
    return path


def change_manifest(folder: Path) -> Path:
    path = folder / "manifest.json"
    path.write_text(path.read_text().replace('"pairs": ', '"pairs": 1', 1))
    return path


@pytest.mark.parametrize(
    "damage", [damage_shard, cut_shard, lose_shard, swap_shards, break_manifest, rename_store, change_manifest]
)
def test_what_is_damaged_or_anothers_is_told_by_its_path_and_built_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage
) -> None:
    rows = rows_of(80)
    stored(tmp_path, build_of(rows))
    before = content(tmp_path)
    path = damage(tmp_path)
    with caplog.at_level(logging.WARNING, "headway"):
        shards, _ = stored(tmp_path, build_of(rows))
    assert str(path) in caplog.text
    assert joined(shards) == kept(rows)
    assert content(tmp_path) == before


def test_shards_are_mapped_and_not_read(tmp_path: Path) -> None:
    shards, _ = stored(tmp_path, build_of(rows_of(80)))
    for shard in shards:
        for part in shard:
            base = part
            while not isinstance(base, np.memmap):
                base = base.base
            assert not part.flags.owndata
            assert not part.flags.writeable


def test_a_file_is_hashed_again_only_where_its_size_or_times_changed(tmp_path: Path, monkeypatch) -> None:
    path, hashed = tmp_path / "a.en", []
    path.write_bytes(b"one")
    monkeypatch.setattr(store_module, "SETTLED", -1)
    monkeypatch.setattr(store_module, "digest", lambda path: (hashed.append(path), digest(path))[1])

    def found() -> list[str]:
        made = Digests([path], tmp_path)
        made.save()
        return made.found

    first = found()
    assert found() == first
    assert len(hashed) == 1
    os.utime(path, ns=(1, 1))
    assert found() == first
    assert len(hashed) == 2
    path.write_bytes(b"two")
    os.utime(path, ns=(1, 1))  # as if nothing had happened; the time of the change itself cannot be set
    assert found() != first
    (tmp_path / "files.json").write_text("[")
    assert found() == [digest(path)]


def test_a_file_that_was_just_written_is_hashed_again_the_next_time(tmp_path: Path) -> None:
    path = tmp_path / "a.en"
    path.write_bytes(b"one")
    Digests([path], tmp_path).save()
    assert json.loads((tmp_path / "files.json").read_bytes()) == {str(path): []}


# ---- the pairs of a recipe ----


def write(path: Path, *lines: str) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def two_files(folder: Path, count: int, name: str = "a") -> dict[str, str]:
    numbers = range(count)
    return {
        "source": write(folder / f"{name}.en", *(f"{name} source {number}" for number in numbers)),
        "target": write(folder / f"{name}.de", *(f"{name} Ziel {number}" for number in numbers)),
    }


def fated(corpus: Corpus, fate: int) -> list[tuple[str, str]]:
    return [(plain(pair.source), plain(pair.target)) for _, pair, of in corpus.read() if of == fate]


@pytest.fixture(scope="module")
def bytewise() -> TokenizerPair:
    return TokenizerPair(*[Tokenizer.train(["a"], BPEConfig(vocab_size=260))] * 2)


def test_pairs_are_parted_and_what_was_left_out_is_counted(tmp_path: Path, bytewise: TokenizerPair) -> None:
    named = {
        "source": write(tmp_path / "a.en", "one", "two", "", "same", "two", "x" * 40, "six"),
        "target": write(tmp_path / "a.de", "eins", "zwei", "leer", "same", "zwei", "y", "sechs"),
    }
    clean = CleanConfig(identical=True, duplicates="pair")
    corpus = Corpus(DataConfig(**named, clean=clean, holdout_share=0.2), tmp_path / "store")
    assert len(fated(corpus, HELD)) == 1
    assert [(plain(pair.source), plain(pair.target)) for pair in corpus.valid] == fated(corpus, HELD)
    examples, told = corpus.examples(bytewise, max_len=50)
    rows = [examples[index] for index in range(len(examples))]
    texts = [(bytewise.source.decode(row.source), bytewise.target.decode(row.target)) for row in rows]
    whole = [("one", "eins"), ("two", "zwei"), ("x" * 40, "y"), ("six", "sechs")]
    assert sorted(texts + fated(corpus, HELD)) == sorted(whole)
    assert texts == fated(corpus, KEPT)
    assert [line.split(" pairs that ")[0] for line in told] == ["left out 1 of 6"] * len(told)
    assert any("have an empty side: lines 3" in line for line in told)
    assert any("are the same on both sides: lines 4" in line for line in told)
    assert any("repeat an earlier pair: lines 5" in line for line in told)


def test_several_corpora_are_told_apart_weighed_and_tagged(tmp_path: Path) -> None:
    first, second = two_files(tmp_path, 30), two_files(tmp_path, 10, "b")
    table = write(tmp_path / "c.tsv", "c source\tc Ziel", "d source\td Ziel")
    config = DataConfig(
        corpora=(
            CorpusConfig(**first, tags=("it",)),
            CorpusConfig(**second, weight=2.5),
            CorpusConfig(path=table, weight=0.5),
        ),
        holdout_share=0.1,
    )
    tokenizer = Tokenizer.train(["a"], BPEConfig(vocab_size=261, tags=("it",)))
    corpus = Corpus(config, tmp_path / "store")
    examples, told = corpus.examples(TokenizerPair(tokenizer, tokenizer), 50)
    assert told == []
    assert sum(examples.sizes) == 42 - len(corpus.valid) == 38
    assert corpus.weights(examples) == [1.0, 2.5, 0.5]
    for index in range(len(examples)):
        row = examples[index]
        assert (tokenizer.atom("<it>") in row.source) == (row.part == 0)
        name = ("a source", "b source", "c.tsv")[row.part]
        assert name.split(".")[0] in tokenizer.decode(row.source) or row.part == 2
    assert examples.place(len(examples) - 1).startswith(f"{table}: line ")
    assert corpus.valid_tags == [("it",), (), ()]
    assert len({pair.corpus for pair in corpus.valid}) >= 1
    tempered = Corpus(config.model_copy(update={"temperature": 2.0}), tmp_path / "store")
    sizes = examples.sizes
    assert tempered.weights(examples) == pytest.approx([(max(sizes) / size) ** 0.5 for size in sizes])


def test_the_second_start_reads_nothing_but_the_store(tmp_path: Path, bytewise: TokenizerPair, monkeypatch) -> None:
    config = DataConfig(**two_files(tmp_path, 200))
    recipe = parse_recipe(
        {
            "data": config.model_dump(exclude_none=True),
            "tokenizer": {"kind": "bpe", "vocab_size": 270},
            "model": "transformer-tiny",
            "train": {"steps": 9, "schedule": {"kind": "inverse_sqrt", "peak": 1e-3, "warmup": 0.5}},
        }
    )

    def start() -> tuple:
        corpus = Corpus(config, tmp_path / "store")
        tokenizers, _ = corpus.tokenizers(recipe, shrink=False)
        examples, told = corpus.examples(tokenizers, 50)
        rows = [examples[index] for index in range(len(examples))]
        return rows, told, corpus.valid, tokenizers.source.to_json(), corpus.fingerprint

    first = start()
    monkeypatch.setattr(prepare.Part, "read", lambda *_: pytest.fail("the files are read again"))
    assert start() == first


CATALOG = """msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\\n"

msgid "a source 3"
msgstr ""

#, fuzzy
msgid "a  source 4"
msgstr "x"

msgid "a source 5"
msgstr "a Ziel 5"
"""


@pytest.mark.parametrize("overlap", ["source", "pair"])
def test_what_is_to_be_translated_is_not_trained_on(tmp_path: Path, overlap: str) -> None:
    named = two_files(tmp_path, 50)
    write(tmp_path / "job.po", *CATALOG.splitlines())
    clean = CleanConfig(overlap=overlap)  # pyright: ignore
    corpus = Corpus(DataConfig(**named, test=(str(tmp_path / "job.po"),), clean=clean), tmp_path / "store")
    left_out = {"source": [3, 4, 5], "pair": [5]}[overlap]
    assert corpus.selection.tally.counts == {"overlap": len(left_out)}
    sources = {source for source, _ in fated(corpus, KEPT) + fated(corpus, HELD)}
    assert sources == {f"a source {number}" for number in range(50) if number not in left_out}


@pytest.mark.parametrize("overlap", ["source", "pair"])
def test_what_differs_in_its_spelling_alone_from_a_pair_held_out_is_not_trained_on(
    tmp_path: Path, overlap: str
) -> None:
    """Each source stands there in four spellings, which have four hashes; half of them have four translations."""

    def seen(text: str) -> str:
        return " ".join(unicodedata.normalize("NFC", text).split())

    lines = []
    for number in range(100):
        ways = [f"Save é{number}", f"Save é{number} ", f"Save  é{number}", f"Save\u00a0e\u0301{number}"]
        lines += [(way, f"{number} {at if number % 2 else ' ' * at}") for at, way in enumerate(ways)]
    sides = zip(("source", "target"), zip(*lines, strict=True), strict=True)
    named = {side: write(tmp_path / side, *texts) for side, texts in sides}
    off = Corpus(DataConfig(**named, holdout_share=0.1), tmp_path / "store")
    clean = CleanConfig(overlap=overlap)  # pyright: ignore
    on = Corpus(DataConfig(**named, holdout_share=0.1, clean=clean), tmp_path / "store")
    held = fated(off, HELD)
    assert len(held) == 40
    sources, targets = ({seen(text) for text in side} for side in zip(*held, strict=True))
    alike = [
        pair
        for pair in fated(off, KEPT)
        if seen(pair[0]) in sources and (overlap == "source" or seen(pair[1]) in targets)
    ]
    assert len(alike) > 20
    assert (fated(on, HELD), on.valid) == (held, off.valid), "those stay as they are"
    assert fated(on, KEPT) == [pair for pair in fated(off, KEPT) if pair not in alike]
    assert on.selection.tally.counts == {"overlap": len(alike)}
    assert on.selection.tally.places["overlap"][0] == f"line {lines.index(alike[0]) + 1}"
    assert on.selection.seen == off.selection.seen


CHANGES = {
    "another text": lambda config, folder: (write(folder / "a.en", *map(str, range(50))), config)[1],
    "a smaller share": lambda config, folder: config.model_copy(update={"holdout_share": 0.02}),
    "cleaning": lambda config, folder: config.model_copy(update={"clean": CleanConfig(identical=True)}),
    "a language": lambda config, folder: config.model_copy(update={"source_language": "en"}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_the_pairs_depend_on_is_in_the_key(tmp_path: Path, change: str) -> None:
    config = DataConfig(**two_files(tmp_path, 50))
    before = Corpus(config, tmp_path / "store")
    assert len(before.valid) == 2
    after = Corpus(CHANGES[change](config, tmp_path), tmp_path / "store")
    assert after.key != before.key
    assert after.fingerprint != before.fingerprint


@pytest.fixture
def fresh() -> Iterator[None]:
    """What makes a store is looked up anew, now and afterwards."""
    store_module.makers.cache_clear()
    yield
    store_module.makers.cache_clear()


@pytest.mark.parametrize("name", ["data/readers.py", "data/clean.py", "formats/po.py", "text/codes.py"])
def test_our_own_code_that_decides_what_is_stored_is_in_the_key(tmp_path: Path, monkeypatch, fresh, name: str) -> None:
    config = DataConfig(**two_files(tmp_path, 50))
    before = Corpus(config, tmp_path / "store")
    package = Path(store_module.__file__).parents[1]
    for room in ("data", "formats", "text"):
        shutil.copytree(package / room, tmp_path / "headway" / room, ignore=shutil.ignore_patterns("*.pyc"))
    monkeypatch.setattr(store_module, "__file__", str(tmp_path / "headway" / "data" / "store.py"))
    store_module.makers.cache_clear()
    assert Corpus(config, tmp_path / "store").key == before.key
    with (tmp_path / "headway" / name).open("a") as file:
        file.write("# another\n")
    store_module.makers.cache_clear()
    after = Corpus(config, tmp_path / "store")
    assert after.key != before.key
    assert after.fingerprint == before.fingerprint, "a run goes on"


@pytest.mark.parametrize("name", ["tokenizers", "sentencepiece", "polib", "py3langid", "pyarrow"])
def test_the_versions_of_the_libraries_that_read_are_in_the_key(tmp_path: Path, monkeypatch, fresh, name: str) -> None:
    config = DataConfig(**two_files(tmp_path, 50))
    known = {library: store_module.version_of(library) for library in store_module.LIBRARIES}
    before = Corpus(config, tmp_path / "store")

    def other(library: str) -> str:
        if library == name:
            raise PackageNotFoundError(library)
        return known[library]

    store_module.makers.cache_clear()
    monkeypatch.setattr(store_module, "version", other)
    assert store_module.version_of(name) == ""
    assert Corpus(config, tmp_path / "store").key != before.key


def test_a_moved_or_touched_file_is_the_same_data(tmp_path: Path) -> None:
    named = two_files(tmp_path, 50)
    before = Corpus(DataConfig(**named), tmp_path / "store")
    os.utime(named["source"], ns=(1, 1))
    moved = Path(named["target"]).rename(tmp_path / "b.de")
    after = Corpus(DataConfig(source=named["source"], target=str(moved)), tmp_path / "store")
    assert after.key == before.key


def test_codes_survive_in_what_is_held_out(tmp_path: Path) -> None:
    pair = Pair(("a ", Code('<g id="1">', "open", True, "1"), "b\u2028"), (Code("%s"),), 2, 5, "unit x")
    assert prepare.from_json(json.loads(json.dumps(prepare.as_json(pair)))) == pair


def test_a_damaged_selection_is_told_and_made_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = DataConfig(**two_files(tmp_path, 50))
    first = Corpus(config, tmp_path / "store").selection
    [folder] = (tmp_path / "store").glob("pairs-*")
    (folder / "fates").write_bytes(b"\0" * 50)
    assert Corpus(config, tmp_path / "store").selection == first
    assert "selection.json: is damaged (the checksum of fates is another); reading the files again" in caplog.text


def test_faults_of_all_corpora_are_told_at_once_after_the_last(tmp_path: Path) -> None:
    good = two_files(tmp_path, 5)
    short = {"source": good["source"], "target": write(tmp_path / "short.de", "x")}
    table = write(tmp_path / "bad.tsv", "a\tb", "c")
    config = DataConfig(corpora=(CorpusConfig(**short), CorpusConfig(**good), CorpusConfig(path=table)))
    with pytest.raises(ValueError, match=r"(?s)has 5 lines and .*short\.de has 1.*bad\.tsv: line 2 has 1 fields"):
        Corpus(config, tmp_path / "store").selection  # noqa: B018
    with pytest.raises(
        ValueError, match=r"(?s)data: .*none\.en: there is no such file.*data\.valid: .*v\.en: there is"
    ):
        Corpus(DataConfig(source="none.en", target=good["target"], valid_source="v.en", valid_target="v.de"), tmp_path)


def test_a_file_that_grows_while_it_is_read_is_told(tmp_path: Path) -> None:
    named = two_files(tmp_path, 50)
    corpus = Corpus(DataConfig(**named), tmp_path / "store")
    assert corpus.selection
    for path in named.values():
        with open(path, "a") as file:
            file.write("one more\n")
    with pytest.raises(ValueError, match=r"a\.en: changed while it was read"):
        list(corpus.read())


def test_what_does_not_fit_its_files_is_forgotten_so_that_beginning_again_works(
    tmp_path: Path, bytewise: TokenizerPair
) -> None:
    """As if other code had read the files: the key is the same, and the number of pairs another."""
    named = two_files(tmp_path, 50)
    config = DataConfig(**named)
    whole = Corpus(config, tmp_path / "whole")
    examples = whole.examples(bytewise, 50)[0]
    corpus = Corpus(config, tmp_path / "store")
    folder = tmp_path / "store" / f"pairs-{corpus.key}"
    shutil.copytree(tmp_path / "whole" / folder.name, folder)
    fates = whole.selection.fates[:-1]
    known = json.loads((folder / "selection.json").read_bytes()) | {"fates": blake2b(fates).hexdigest()}
    (folder / "fates").write_bytes(fates)
    (folder / "selection.json").write_text(json.dumps(known))
    with pytest.raises(ValueError, match=r"a\.en: changed while it was read; begin again"):
        corpus.examples(bytewise, 50)
    assert not [*(tmp_path / "store").glob("pairs-*"), *(tmp_path / "store").glob("tokens-*")]
    again = Corpus(config, tmp_path / "store").examples(bytewise, 50)[0]
    assert [again[at] for at in range(len(again))] == [examples[at] for at in range(len(examples))]


def test_a_tokenizer_learns_from_a_sample_of_a_large_corpus_and_says_so(
    tmp_path: Path, monkeypatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(prepare, "SAMPLE", 100)
    corpus = Corpus(DataConfig(**two_files(tmp_path, 1_000)), tmp_path / "store")
    number = corpus.selection.fates.count(KEPT)
    sides = [list(corpus._texts(side, number)) for side in (0, 1)]
    assert 60 < len(sides[0]) < 140
    assert [text.split()[-1] for text in sides[0]] == [text.split()[-1] for text in sides[1]]
    assert sides[0] == list(corpus._texts(0, number))
    with caplog.at_level(logging.INFO, "headway"):
        corpus._learnt(BPEConfig(vocab_size=262))
    assert "learning from about 100 of the 950 pairs" in caplog.text


# ---- what is validated on ----


def validation_of(folder: Path, vocabularies: TokenizerPair, *entries: str, **data: object) -> training.Validation:
    """Validation on a catalog with these entries."""
    write(folder / "held.po", 'msgid ""', 'msgstr "Content-Type: text/plain; charset=UTF-8\\n"', "", *entries)
    table = {
        "data": {**two_files(folder, 20), "valid": str(folder / "held.po"), **data},
        "tokenizer": {"kind": "bpe", "vocab_size": 260},
        "model": "transformer-tiny",
        "train": {"steps": 9, "schedule": {"kind": "inverse_sqrt", "peak": 1e-3, "warmup": 0.5}},
    }
    recipe = parse_recipe(table)
    return training.Validation(Corpus(recipe.data, folder / "store"), vocabularies, recipe)


def entry(source: str, target: str, flag: str = "") -> str:
    return f'{flag}msgid "{source}"\nmsgstr "{target}"\n'


FUZZY = "#, fuzzy\n"


def test_what_files_to_validate_on_hold_without_a_pair_is_told(
    tmp_path: Path, bytewise: TokenizerPair, caplog: pytest.LogCaptureFixture
) -> None:
    entries = [entry("a", "b"), entry("c", "d", FUZZY), entry("e", "f", FUZZY), entry("g", ""), entry("h" * 60, "i")]
    found = validation_of(tmp_path, bytewise, *entries, max_len=50)
    assert len(found.encoded) == 1
    assert [record.getMessage().rsplit(": ", 1)[0] for record in caplog.records] == [
        "validation loss: left out 2 of 5 pairs that hold a translation that their file marks as unsure",
        "validation loss: left out 1 of 5 pairs that have no translation yet",
        "validation loss: left out 1 of 5 pairs that have more than 50 tokens on a side",
    ]


def test_what_is_unfinished_is_not_blamed_on_its_length(tmp_path: Path, bytewise: TokenizerPair) -> None:
    left = "no pair is left to validate on\n  left out "
    with pytest.raises(ValueError, match=left) as told:
        validation_of(tmp_path, bytewise, entry("a", "b", FUZZY), entry("c", "d", FUZZY))
    assert "held.po: no pair is left" in str(told.value)
    assert "left out 2 of 2 pairs that hold a translation that their file marks as unsure: line 5, msgid" in str(
        told.value
    )
    assert str(told.value).endswith("\nName other files")
    with pytest.raises(ValueError, match=left) as told:
        validation_of(tmp_path, bytewise, entry("a", "b", FUZZY), entry("c" * 60, "d"), max_len=50)
    assert "left out 1 of 2 pairs that have more than 50 tokens" in str(told.value)
    assert str(told.value).endswith("\nName other files, or raise data.max_len")
    with pytest.raises(ValueError, match="no pair is left to validate on\n  there is none in them\nName other files"):
        validation_of(tmp_path, bytewise)


# ---- runs ----


def trained(toy: Toy, out: Path, **changes: object) -> dict:
    files = {f"data.{side}": str(toy.data / f"train.{name}") for side, name in (("source", "en"), ("target", "de"))}
    table = {
        "model": {"preset": "transformer-tiny", "dim": 16},
        "tokenizer": {"kind": "bpe", "vocab_size": 300},
        "data": {key.removeprefix("data."): path for key, path in files.items()},
        "train": {"steps": 2, "schedule": {"kind": "inverse_sqrt", "peak": 1e-3, "warmup": 0.5}},
    }
    return api.train(table, out=out, quiet=True, set={**overrides(list(toy.settings)), **changes})


def test_a_run_keeps_its_store_and_a_wrong_call_leaves_nothing(toy: Toy, tmp_path: Path) -> None:
    assert {path.name.split("-")[0] for path in (toy.run / "store").glob("[a-z]*")} == {"pairs", "tokens", "files.json"}
    with pytest.raises(ValueError, match="batch_tokens = 8"):
        trained(toy, tmp_path / "run", **{"train.batch_tokens": 8})
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_is_stopped_before_its_first_step_begins_again_with_what_was_encoded(
    toy: Toy, tmp_path: Path
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training.Validation, "__init__", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            trained(toy, tmp_path / "runs" / "run")
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["run"]
    assert [path.name for path in (tmp_path / "runs" / "run").iterdir()] == ["store"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headway.data.prepare.Corpus._select", lambda *_: pytest.fail("the files are read again"))
        trained(toy, tmp_path / "runs" / "run")
    assert (tmp_path / "runs" / "run" / "model.safetensors").exists()


def test_runs_share_a_store_that_is_named(toy: Toy, tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 2)):
        trained(toy, tmp_path / name, **{"data.store": str(tmp_path / "store"), "train.seed": seed})
        assert not (tmp_path / name / "store").exists()
    assert len(list((tmp_path / "store").glob("tokens-*"))) == 1
    trained(toy, tmp_path / "c", **{"data.store": str(tmp_path / "store"), "data.max_len": 200})
    assert len(list((tmp_path / "store").glob("tokens-*"))) == 2
    assert len(list((tmp_path / "store").glob("pairs-*"))) == 1


def test_a_run_on_other_data_is_not_resumed_and_its_store_is_left_alone(toy: Toy, tmp_path: Path) -> None:
    for name in ("train.en", "train.de"):
        (tmp_path / name).write_bytes((toy.data / name).read_bytes())
    files = {"source": tmp_path / "train.en", "target": tmp_path / "train.de", "out": tmp_path / "run", "quiet": True}
    api.train(**files, set=overrides(list(toy.settings)))
    before = sorted(path.name for path in (tmp_path / "run" / "store").iterdir())
    (tmp_path / "train.en").write_bytes((toy.data / "train.en").read_bytes() + b"One more.\n")
    (tmp_path / "train.de").write_bytes((toy.data / "train.de").read_bytes() + b"Noch einer.\n")
    with pytest.raises(ValueError, match=r"the run began with other data:\n  files.0 train.en: .* then, .* now"):
        api.train(out=tmp_path / "run", resume=True, quiet=True)
    assert sorted(path.name for path in (tmp_path / "run" / "store").iterdir()) == before


def test_corpora_with_tags_weights_and_dropout_train_and_resume_to_the_same_bits(toy: Toy, tmp_path: Path) -> None:
    lines = zip(*((toy.data / f"train.{side}").read_text().splitlines()[:40] for side in ("en", "de")), strict=True)
    table = write(tmp_path / "c.tsv", *map("\t".join, lines))
    corpora = [
        {"source": str(toy.data / "train.en"), "target": str(toy.data / "train.de"), "weight": 0.5},
        {"path": table, "tags": ["table"], "weight": 2},
    ]
    changes = overrides(list(toy.settings)) | {"train.steps": 4, "train.save_every": 2}
    recipe = {
        "model": "transformer-tiny",
        "tokenizer": {"kind": "bpe", "vocab_size": 320, "tags": ["table"], "dropout": 0.3},
        "data": {"corpora": corpora},
        "train": {"steps": 4, "schedule": {"kind": "inverse_sqrt", "peak": 1e-3, "warmup": 0.5}},
    }
    scores = api.train(recipe, out=tmp_path / "whole", set=changes, quiet=True)
    assert scores["num_lines"] > 5
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training.Validation, "__call__", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            api.train(recipe, out=tmp_path / "broken", set=changes, quiet=True)
    api.train(out=tmp_path / "broken", resume=True, quiet=True)
    for name in ("metrics.jsonl", "model.safetensors"):
        assert (tmp_path / "broken" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    written = load_recipe(tmp_path / "whole" / "recipe.toml").data
    assert [corpus.weight for corpus in written.corpora] == [0.5, 2.0]


SPEAKS = """
import json, sys, threading, time
from pathlib import Path
from headway import api

folder, count, most = Path(sys.argv[1]), sys.argv[2], [0]
recipe = {
    "model": {"preset": "transformer-tiny", "dim": 16},
    "tokenizer": {"kind": "bpe", "vocab_size": 1000},
    "data": {"source": f"{folder}/{count}.en", "target": f"{folder}/{count}.de", "store": f"{folder}/store-{count}"},
    "train": {
        "steps": 30, "batch_tokens": 4096, "validate_every": 30, "save_every": 30,
        "schedule": {"kind": "inverse_sqrt", "peak": 1e-3, "warmup": 0.5},
    },
    "search": {"beam": 1, "max_extra": 1, "max_ratio": 0.1},
}

def anonymous():
    status = Path("/proc/self/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) // 1024

def watch():
    while True:
        most[0] = max(most[0], anonymous())
        time.sleep(0.02)

begin, before = time.perf_counter(), anonymous()
threading.Thread(target=watch, daemon=True).start()
api.train(recipe, out=folder / f"run-{count}-{time.time_ns()}", quiet=True, device="cpu")
print(json.dumps({"seconds": round(time.perf_counter() - begin, 1), "mebibytes": most[0] - before}))
"""


@pytest.mark.slow
def test_five_million_lines_train_in_flat_memory(tmp_path: Path) -> None:
    found = {}
    for count in (500_000, 5_000_000):
        for side, word in (("en", "dog"), ("de", "Hund")):
            with (tmp_path / f"{count}.{side}").open("w") as file:
                for number in range(count):
                    words = " ".join(f"{word}{(number * factor) % 997}" for factor in range(1, 2 + number % 9))
                    file.write(f"{words} {number % 50_000}\n")
        for start in ("first", "second"):
            command = [sys.executable, "-c", SPEAKS, str(tmp_path), str(count)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            found[count, start] = json.loads(done.stdout.splitlines()[-1])
            print(count, start, found[count, start])
    few, many = (found[count, "first"]["mebibytes"] for count in (500_000, 5_000_000))
    assert many - few < 4_500_000 * 64 / 2**20, "64 bytes a pair: lengths and the order of an epoch"
