"""The phrasebook writes correct German, translates each sentence one way only, and its split tests composition."""

import random
import re
from collections import Counter

import pytest
import sacrebleu

from headway.data import phrasebook
from headway.data.phrasebook import Author, Pair
from headway.data.phrasebook.grammar import Clause, Phrase, ending, entry, spell, table

# --- gold sentences, written by hand: the functions here make the tree of each from a few words


def noun(text: str, preposition: str = "", relative: Clause | None = None) -> Phrase:
    """A phrase from `determiner [adjective] noun[+]`: + is plural, `-` no determiner; or from a pronoun or a name."""
    before = entry("prepositions", preposition) if preposition else None
    words = text.split()
    if len(words) == 1:
        return Phrase(entry("pronouns", text), preposition=before)
    plural = words[-1].endswith("+")
    number = "en_plural" if plural else "en"
    determiner = next(
        row
        for row in table("determiners")
        if row[number] == words[0].replace("-", "") and (words[0] != "-" or row["sense"] == "bare")
    )
    adjective = entry("adjectives", words[1]) if len(words) == 3 else None
    head = entry("nouns", words[-1].removesuffix("+"))
    return Phrase(head, plural, determiner, adjective, clause=relative, preposition=before)


def clause(
    subject: str | Phrase, verb: str, tense: str = "present", *, negated: bool = False, front: str = "subject", **parts
):
    """A clause; each part is a phrase or its text (`at|the lake` with a preposition), an adverb or an adjective."""

    def part(name: str, text: str | Phrase):
        if isinstance(text, Phrase):
            return text
        if name == "predicate":
            return entry("adjectives", text)
        if any(row["en"] == text for row in table("adverbs")):
            return entry("adverbs", text)
        preposition, _, rest = text.rpartition("|")
        return noun(rest, preposition)

    spelled = {name: part(name, text) for name, text in ({"subject": subject} | parts).items()}
    return Clause(entry("verbs", verb), tense, spelled, negated, front)


def relative(head: str, verb: str, gap: str = "subject", subject: str = "", **parts) -> Phrase:
    """`head` with a relative clause in which it is the subject or the object."""
    bare = noun(head)
    lost = Phrase(bare.head, bare.plural, relative=True)
    inner = (
        clause(lost, verb, **parts) if gap == "subject" else clause(subject, verb, object=lost, front="object", **parts)
    )
    return noun(head, relative=inner)


def owned(text: str, owner: str) -> Phrase:
    thing = noun(text)
    return Phrase(thing.head, thing.plural, thing.determiner, thing.adjective, possessor=noun(owner))


GOLD = {
    # cases and genders
    "The dog sees the cat.|Der Hund sieht die Katze.": ("statement", clause("the dog", "see", object="the cat")),
    "The cat sees the dog.|Die Katze sieht den Hund.": ("statement", clause("the cat", "see", object="the dog")),
    "The girl helps the man.|Das Mädchen hilft dem Mann.": ("statement", clause("the girl", "help", object="the man")),
    "The man gives the woman the key.|Der Mann gibt der Frau den Schlüssel.": (
        "statement",
        clause("the man", "give", recipient="the woman", object="the key"),
    ),
    "He gives her a ball.|Er gibt ihr einen Ball.": (
        "statement",
        clause("he", "give", recipient="she", object="a ball"),
    ),
    "They thank him.|Sie danken ihm.": ("statement", clause("they", "thank", object="he")),
    "A student sees the boy.|Ein Student sieht den Jungen.": (
        "statement",
        clause("a student", "see", object="the boy"),
    ),
    "The friends help the children.|Die Freunde helfen den Kindern.": (
        "statement",
        clause("the friend+", "help", object="the child+"),
    ),
    "I see the man's old car.|Ich sehe das alte Auto des Mannes.": (
        "statement",
        clause("I", "see", object=owned("the old car", "the man")),
    ),
    "I need the boy's bag.|Ich brauche die Tasche des Jungen.": (
        "statement",
        clause("I", "need", object=owned("the bag", "the boy")),
    ),
    "She needs Anna's new key.|Sie braucht Annas neuen Schlüssel.": (
        "statement",
        clause("she", "need", object="Anna's new key"),
    ),
    # adjectives after the three kinds of determiner
    "An old man buys an expensive coat.|Ein alter Mann kauft einen teuren Mantel.": (
        "statement",
        clause("a old man", "buy", object="a expensive coat"),
    ),
    "The small child drinks cold milk.|Das kleine Kind trinkt kalte Milch.": (
        "statement",
        clause("the small child", "drink", object="- cold milk"),
    ),
    "Two old doctors help this tired horse.|Zwei alte Ärzte helfen diesem müden Pferd.": (
        "statement",
        clause("two old doctor+", "help", object="this tired horse"),
    ),
    "My young sister buys fresh bread.|Meine junge Schwester kauft frisches Brot.": (
        "statement",
        clause("my young sister", "buy", object="- fresh bread"),
    ),
    # prepositions that govern the dative or the accusative, and their contractions
    "The bird sleeps in the garden.|Der Vogel schläft im Garten.": (
        "statement",
        clause("the bird", "sleep", place="in|the garden"),
    ),
    "The boy runs into the house.|Der Junge läuft ins Haus.": (
        "statement",
        clause("the boy", "run", place="into|the house"),
    ),
    "We drive to the school.|Wir fahren zur Schule.": ("statement", clause("we", "drive", place="to|the school")),
    "The letters are under the bed.|Die Briefe sind unter dem Bett.": (
        "statement",
        clause("the letter+", "be", place="under|the bed"),
    ),
    "I buy a gift for my brother.|Ich kaufe ein Geschenk für meinen Bruder.": (
        "statement",
        clause("I", "buy", object="a gift", extra="for|my brother"),
    ),
    "She dances with the boys.|Sie tanzt mit den Jungen.": ("statement", clause("she", "dance", extra="with|the boy+")),
    "The horse comes from the forest.|Das Pferd kommt aus dem Wald.": (
        "statement",
        clause("the horse", "come", place="from|the forest"),
    ),
    # time before place, verb second
    "Anna works at the station every day.|Anna arbeitet jeden Tag am Bahnhof.": (
        "statement",
        clause("Anna", "work", place="at|the station", time="every day"),
    ),
    "Every day the farmer drinks tea.|Jeden Tag trinkt der Bauer Tee.": (
        "fronted",
        clause("the farmer", "drink", object="- tea", time="every day", front="time"),
    ),
    "He often eats the soup.|Er isst oft die Suppe.": (
        "statement",
        clause("he", "eat", object="the soup", adverb="often"),
    ),
    # separable verbs
    "Peter opens the door.|Peter macht die Tür auf.": ("statement", clause("Peter", "open", object="the door")),
    "The guests listen to us.|Die Gäste hören uns zu.": ("statement", clause("the guest+", "listen to", object="we")),
    "Does she get up?|Steht sie auf?": ("question", clause("she", "get up")),
    # perfect, with either auxiliary
    "The teacher went to the lake.|Der Lehrer ist zum See gegangen.": (
        "statement",
        clause("the teacher", "go", "past", place="to|the lake"),
    ),
    "Yesterday he called his mother.|Gestern hat er seine Mutter angerufen.": (
        "fronted",
        clause("he", "call", "past", object="his mother", time="yesterday", front="time"),
    ),
    "I was tired.|Ich war müde.": ("statement", clause("I", "be", "past", predicate="tired")),
    # modal verbs
    "She has to repair the bicycle.|Sie muss das Fahrrad reparieren.": (
        "statement",
        clause("she", "repair", "have to", object="the bicycle"),
    ),
    "Tomorrow we can invite him.|Morgen können wir ihn einladen.": (
        "fronted",
        clause("we", "invite", "can", object="he", time="tomorrow", front="time"),
    ),
    "They cannot close the window.|Sie können das Fenster nicht zumachen.": (
        "statement",
        clause("they", "close", "can", object="the window", negated=True),
    ),
    "Does he want to buy the lamp?|Will er die Lampe kaufen?": (
        "question",
        clause("he", "buy", "want to", object="the lamp"),
    ),
    # negation: `kein` with what is indefinite, else `nicht`
    "I do not eat an apple.|Ich esse keinen Apfel.": ("statement", clause("I", "eat", object="a apple", negated=True)),
    "The boy did not drink coffee.|Der Junge hat keinen Kaffee getrunken.": (
        "statement",
        clause("the boy", "drink", "past", object="- coffee", negated=True),
    ),
    "He does not sell old books.|Er verkauft keine alten Bücher.": (
        "statement",
        clause("he", "sell", object="- old book+", negated=True),
    ),
    "Maria did not find the key today.|Maria hat den Schlüssel heute nicht gefunden.": (
        "statement",
        clause("Maria", "find", "past", object="the key", time="today", negated=True),
    ),
    "The cow is not hungry.|Die Kuh ist nicht hungrig.": (
        "statement",
        clause("the cow", "be", predicate="hungry", negated=True),
    ),
    "He does not play with the dog.|Er spielt nicht mit dem Hund.": (
        "statement",
        clause("he", "play", extra="with|the dog", negated=True),
    ),
    # questions
    "Did the woman buy the flowers?|Hat die Frau die Blumen gekauft?": (
        "question",
        clause("the woman", "buy", "past", object="the flower+"),
    ),
    "Where do the children play?|Wo spielen die Kinder?": (
        "where",
        clause("the child+", "play", place="where", front="place"),
    ),
    "What does the boy eat?|Was isst der Junge?": ("what", clause("the boy", "eat", object="what", front="object")),
    "Whom does Paul follow?|Wem folgt Paul?": ("whom", clause("Paul", "follow", object="who", front="object")),
    "Whom did they see?|Wen haben sie gesehen?": ("whom", clause("they", "see", "past", object="who", front="object")),
    "Who needs the lamps?|Wer braucht die Lampen?": ("who", clause("who", "need", object="the lamp+")),
    # subordinate clauses
    "She knows that the dog sleeps in the kitchen.|Sie weiß, dass der Hund in der Küche schläft.": (
        "that",
        clause("she", "know"),
        clause("the dog", "sleep", place="in|the kitchen"),
    ),
    "I hope that he calls me.|Ich hoffe, dass er mich anruft.": (
        "that",
        clause("I", "hope"),
        clause("he", "call", object="I"),
    ),
    "He laughed because the bird sang.|Er hat gelacht, weil der Vogel gesungen hat.": (
        "because",
        clause("he", "laugh", "past"),
        clause("the bird", "sing", "past"),
    ),
    "If the child is tired, the mother sings.|Wenn das Kind müde ist, singt die Mutter.": (
        "if",
        clause("the child", "be", predicate="tired"),
        clause("the mother", "sing"),
    ),
    "Paul works although he is ill.|Paul arbeitet, obwohl er krank ist.": (
        "although",
        clause("Paul", "work"),
        clause("he", "be", predicate="ill"),
    ),
    "The son sleeps, but the daughter works.|Der Sohn schläft, aber die Tochter arbeitet.": (
        "but",
        clause("the son", "sleep"),
        clause("the daughter", "work"),
    ),
    # relative clauses
    "The man who helps us is friendly.|Der Mann, der uns hilft, ist freundlich.": (
        "relative",
        clause(relative("the man", "help", object="we"), "be", predicate="friendly"),
    ),
    "The book that she wrote was new.|Das Buch, das sie geschrieben hat, war neu.": (
        "relative",
        clause(relative("the book", "write", "object", "she", tense="past"), "be", "past", predicate="new"),
    ),
    "The doctor whom I call laughs.|Der Arzt, den ich anrufe, lacht.": (
        "relative",
        clause(relative("the doctor", "call", "object", "I"), "laugh"),
    ),
    "The guest whom we help thanks me.|Der Gast, dem wir helfen, dankt mir.": (
        "relative",
        clause(relative("the guest", "help", "object", "we"), "thank", object="I"),
    ),
}


@pytest.mark.parametrize("text", GOLD)
def test_gold_sentence_is_spelled_in_both_languages(text: str) -> None:
    name, *clauses = GOLD[text]
    pattern = entry("patterns", name)
    assert "|".join(spell(pattern[language], clauses, language) for language in ("en", "de")) == text


# The paradigms as school grammars print them (Duden): rows nom, acc, dat, gen; columns m, f, n, plural.
PARADIGMS = {
    "strong": "er e es e  en e es e  em er em en  en er en er",
    "mixed": "er e es en  en e es en  en en en en  en en en en",
    "weak": "e e e en  en e e en  en en en en  en en en en",
    "the": "der die das die  den die das die  dem der dem den  des der des der",
    "dies": "er e es e  en e es e  em er em en  es er es er",
}


@pytest.mark.parametrize("kind", PARADIGMS)
def test_endings_are_those_of_the_standard_paradigm(kind: str) -> None:
    cells = [ending(kind, case, gender) for case in ("nom", "acc", "dat", "gen") for gender in "mfnp"]
    assert cells == PARADIGMS[kind].split()


@pytest.fixture(scope="module")
def parts() -> tuple[list[Pair], list[Pair], list[Pair]]:
    return phrasebook.split(train=10000, valid=211, test=307, seed=1)


def test_an_english_sentence_has_one_translation() -> None:
    rng, seen = random.Random(4), dict[str, str]()
    for _ in range(8000):  # with repeats: `generate` would hide a second translation
        pair = phrasebook.draw(rng)
        if pair:
            assert seen.setdefault(pair.source, pair.target) == pair.target


def test_generate_is_a_pure_function_of_its_seed() -> None:
    assert phrasebook.generate(150, 3) == phrasebook.generate(150, 3)
    assert phrasebook.generate(90, 3) == phrasebook.generate(150, 3)[:90]
    assert phrasebook.generate(90, 3) != phrasebook.generate(90, 5)


def test_split_is_a_pure_function_of_its_seed() -> None:
    assert phrasebook.split(3000, 20, 30, seed=2) == phrasebook.split(3000, 20, 30, seed=2)


def test_sources_are_distinct_and_the_parts_disjoint(parts: tuple[list[Pair], ...]) -> None:
    assert [len(part) for part in parts] == [10000, 211, 307]
    sources = [pair.source for part in parts for pair in part]
    assert len(set(sources)) == len(sources)


def test_every_test_sentence_needs_a_pair_that_training_lacks(parts: tuple[list[Pair], ...]) -> None:
    train, valid, test = parts
    shown = set[tuple[str, str]]().union(*(pair.slots for pair in train))
    held = set[tuple[str, str]]().union(*(pair.slots for pair in test)) - shown
    assert all(not pair.slots.isdisjoint(held) for pair in test)
    assert all(pair.slots.isdisjoint(held) for pair in valid)
    assert len(held) >= 25
    words, slots = Counter(word for word, _ in shown), Counter(slot for _, slot in shown)
    assert all(words[word] >= 1 and slots[slot] >= 3 for word, slot in held)


def test_training_shows_every_inflected_word_of_test(parts: tuple[list[Pair], ...]) -> None:
    shown = {word for pair in parts[0] for word in re.findall(r"\w+", pair.target.lower())}
    assert all(word in shown for pair in parts[2] for word in re.findall(r"\w+", pair.target.lower()))


def test_training_shows_every_word_of_the_tables(parts: tuple[list[Pair], ...]) -> None:
    shown = {word for pair in parts[0] for word, _ in pair.slots}
    assert shown >= {row["en"] for name in ("nouns", "verbs", "adjectives") for row in table(name)}


def test_word_for_word_lookup_stays_under_30_bleu(parts: tuple[list[Pair], ...]) -> None:
    lexicon = phrasebook.lexicon()
    sources, references = [pair.source for pair in parts[2]], [pair.target for pair in parts[2]]
    known = {word for source in sources for word in re.findall(r"\w+(?:'s)?", source)}
    missing = {word for word in known if word not in lexicon and word.lower() not in lexicon and "'" not in word}
    assert not missing  # an honest baseline knows every word
    assert sacrebleu.corpus_bleu(phrasebook.word_for_word(sources, lexicon), [references]).score < 30


def test_word_for_word_takes_each_word_alone() -> None:
    assert phrasebook.word_for_word(["The dogs sleep."], phrasebook.lexicon()) == ["Der Hund schlafen."]


def test_sentences_are_4_to_12_english_words() -> None:
    assert {len(pair.source.split()) for pair in phrasebook.generate(2000, 6)} == set(range(4, 13))


def test_an_author_repeats_no_word() -> None:
    author = Author(random.Random(1), past=False)
    words = [author.fresh(table("adjectives"))["en"] for _ in table("adjectives")]
    assert len(set(words)) == len(words)
    with pytest.raises(IndexError):
        author.fresh(table("adjectives"))


def test_write_makes_six_parallel_files(tmp_path) -> None:
    phrasebook.write(tmp_path / "new", train=2500, valid=30, test=40, seed=3)
    for name, pairs in zip(("train", "valid", "test"), phrasebook.split(2500, 30, 40, seed=3), strict=True):
        for language, lines in (("en", [p.source for p in pairs]), ("de", [p.target for p in pairs])):
            assert (tmp_path / "new" / f"{name}.{language}").read_text(encoding="utf-8").split("\n") == [*lines, ""]


def test_too_small_a_training_part_is_refused() -> None:
    with pytest.raises(ValueError, match="train = 30 sentences"):
        phrasebook.split(30, 5, 200, seed=1)
