"""What the word lists suggest, and that they do it safely."""

import random
import time

import pytest

from reviser.proofread.line import place, read
from reviser.proofread.lists import Lists
from reviser.proofread.ngrams import Ngrams, forms, pack, tokenize, unpack, words
from reviser.proofread.suggestion import LOCKED, Suggestion

SUGGEST = Lists()

CASES = [
    # spelling
    ("I will definately come.", "I will definitely come.", "spelling"),
    ("We had alot of fun.", "We had a lot of fun.", "spelling"),
    ("The pond freezed at night.", "The pond froze at night.", "spelling"),
    ("It is a letter form my aunt.", "It is a letter from my aunt.", "confused"),
    ("We had launch at noon.", "We had lunch at noon.", "slip"),
    ("They met in the foot ball club.", "They met in the football club.", "spacing"),
    # verbs
    ("My roommate tell me yesterday.", "My roommate told me yesterday.", "tense"),
    ("The app crash every time.", "The app crashes every time.", "verb-form"),
    ("Two workers was started.", "Two workers were started.", "subject-verb"),
    ("I live here for four years.", "I have lived here for four years.", "auxiliary"),
    ("I work here for four years.", "I have worked here for four years.", "tense"),
    ("I still learn how it works.", "I am still learning how it works.", "auxiliary"),
    ("He enjoys to swim.", "He enjoys swimming.", "to-or-ing"),
    # what words further away ask for
    ("I look forward to hear from you.", "I look forward to hearing from you.", "to-or-ing"),
    ("I can't wait for seeing you.", "I can't wait to see you.", "to-or-ing"),
    ("She is good at teach.", "She is good at teaching.", "to-or-ing"),
    ("They decided going home.", "They decided to go home.", "to-or-ing"),
    ("The walls in this building is thin.", "The walls in this building are thin.", "subject-verb"),
    ("Everyone tell you to visit.", "Everyone tells you to visit.", "subject-verb"),
    ("I has a dog.", "I have a dog.", "subject-verb"),
    ("He have left in 2010.", "He left in 2010.", "tense"),
    ("We meet in Monday.", "We meet on Monday.", "time-preposition"),
    ("It began on March.", "It began in March.", "time-preposition"),
    ("It opens in 9 pm.", "It opens at 9 pm.", "time-preposition"),
    ("I wait since about two hours.", "I wait for about two hours.", "time-preposition"),
    ("I have lived here for 2010.", "I have lived here since 2010.", "time-preposition"),
    # nouns, adjectives, other words
    ("I lived there for four month.", "I lived there for four months.", "noun-number"),
    ("He runs very quick.", "He runs very quickly.", "adjective"),
    ("This is more easy than that.", "This is easier than that.", "adjective"),
    ("She wanted to success.", "She wanted to succeed.", "word-family"),
    # small words
    ("He bought car.", "He bought a car.", "article"),
    ("Meeting is on Monday.", "The meeting is on Monday.", "article"),
    ("She is a honest woman.", "She is an honest woman.", "article"),
    ("It depends of the weather.", "It depends on the weather.", "preposition"),
    ("Call me if you need.", "Call me if you need it.", "missing"),
    ("I want learn it.", "I want to learn it.", "missing"),
    ("We discussed about the plan.", "We discussed the plan.", "extra"),
    # marks and order
    ("In conclusion it is useful.", "In conclusion, it is useful.", "punctuation"),
    ("It was late, we went home.", "It was late. We went home.", "punctuation"),
    ("He always is late.", "He is always late.", "order"),
    ("I know why are you here.", "I know why you are here.", "order"),
]


def results(text: str) -> dict[str, str]:
    """Return the texts that the suggestions would make, each with the first rule that does."""
    found: dict[str, str] = {}
    for one in SUGGEST(text):
        for new in one.replacements:
            found.setdefault(text[: one.start] + new + text[one.end :], one.rule)
    return found


@pytest.mark.parametrize(("text", "wanted", "rule"), CASES)
def test_a_correction_is_suggested(text: str, wanted: str, rule: str) -> None:
    assert results(text).get(wanted) == rule


def spellings(suggest: Lists, text: str) -> list[Suggestion]:
    return [one for one in suggest(text) if one.rule == "spelling"]


@pytest.mark.parametrize(
    "text",
    [
        "We met Marja in Oulu.",  # a name
        "The sendng of it. Then sendng again.",  # a word that occurs twice
        "The colour and the color, to organise and to organize.",  # both dialects
        "See src/sendng.py and user_sendng for it.",  # paths and names of code
        "An iPhone and a NASDAQ index.",
    ],
)
def test_a_word_is_not_misspelled(text: str) -> None:
    assert spellings(SUGGEST, text) == []


def test_the_words_of_the_user_are_known() -> None:
    text = "We use sendng here."
    assert spellings(SUGGEST, text)
    assert spellings(Lists(["Sendng"]), text) == []


def test_a_dialect_limits_the_spellings() -> None:
    american, british = (
        {new for one in Lists(dialect=dialect)("My favorit book.") for new in one.replacements}
        for dialect in ("american", "british")
    )
    assert {"favorite", "favourite"} & american == {"favorite"}
    assert {"favorite", "favourite"} & british == {"favourite"}


TEXTS = [
    "",
    " ",
    "A",
    "...",
    f"Use {LOCKED * 5} to open {LOCKED} file. {LOCKED}It work.",
    f"{LOCKED}",
    "Dear Tom,\n\nI am writing you for to apologize\nfor noise.\n\n- a item\n- other item\n",
    "\u201cHe don\u2019t know,\u201d she say. It\u2019s the childrens\u2019 books; (they was)!",
    "a 3.5 GB file_name at C:\\temp or https://example.org/ isnt well-know \U0001f600 caf\u00e9.",
]


def random_text(seed: int) -> str:
    rng = random.Random(seed)
    pieces = [
        *words()[:300],
        "I",
        "The",
        ".",
        ",",
        "\n",
        "  ",
        LOCKED,
        "'",
        "\u2019s",
        "-",
        "3",
        "(",
        ")",
    ]
    return "".join(rng.choice(pieces) + rng.choice([" ", " ", " ", ""]) for _ in range(120))


@pytest.mark.parametrize("text", [*TEXTS, *map(random_text, range(12))])
def test_suggestions_are_inside_the_text_and_change_it(text: str) -> None:
    seen = set()
    for one in SUGGEST(text):
        assert 0 <= one.start <= one.end <= len(text)
        assert LOCKED not in text[one.start : one.end]
        assert "\n" not in text[one.start : one.end]
        assert one.replacements
        assert not one.sure
        for new in one.replacements:
            assert text[one.start : one.end] != new
            assert LOCKED not in new
            assert (one.start, one.end, new) not in seen
            seen.add((one.start, one.end, new))


@pytest.mark.parametrize(
    "piece", [" ", "x", "the ", "a,", "'", "\n", LOCKED, "x.", "sendng ", "go "]
)
def test_the_time_is_linear(piece: str) -> None:
    def seconds(size: int) -> float:
        text = (piece * size)[:size]
        started = time.process_time()
        list(SUGGEST(text))
        return time.process_time() - started

    seconds(500)
    assert min(seconds(8_000), seconds(8_000)) < 12 * max(seconds(2_000), 0.1)


def test_the_tables_of_forms_agree() -> None:
    table = forms()
    assert table.families["v"]["went"] == (("go", "goes", "went", "gone", "going"),)
    assert table.families["n"]["children"] == (("child", "children"),)
    assert ("good", "better", "best", "well") in table.families["a"]["well"]
    assert "-" not in table.tags


def test_tokens_are_where_they_say() -> None:
    text = "The children\u2019s toys don\u2019t cost 3.50, Anna.\nNo."
    tokens = [token for token in tokenize(text) if token.text]
    assert all(text[token.start : token.end] == token.text for token in tokens)
    assert [token.lower for token in tokens][:6] == [
        "the",
        "children",
        "'s",
        "toys",
        "don't",
        "cost",
    ]
    assert [token.text for token in tokens if token.is_name] == ["Anna"]
    assert [token.text for token in tokens if token.is_first] == ["The", "No"]


def test_numbers_are_unpacked_as_they_were_packed() -> None:
    keys, values = [3, 4, 70_000, 2**30], [-127, 0, 5, 127]
    found, others = unpack(pack(keys, values), 4)
    assert (list(found), list(others)) == (keys, values)


def test_gains_are_differences_of_costs() -> None:
    model = Ngrams()
    line = read("It depends of the weather.", model)
    old = model.cost(line.entries, 4, 5)
    assert line.words[4] == "of"
    on, to = model.gains(line.entries, 4, 5, [("on",), ("to",)], old, -500)
    row = [*line.entries[:4], model.entry("on"), *line.entries[5:]]
    assert on == old - model.cost(row, 4, 5) > to
    assert place(line, 4, 5, ("on",)) == (11, 13, "on")
