"""Rules that find mistakes without a model."""

import random
import re
import time
from itertools import pairwise

import pytest

from reviser.proofread.rules import Rules
from reviser.proofread.rules.grammar import article
from reviser.proofread.rules.tables import dialects, entries, misspellings
from reviser.proofread.rules.text import Text
from reviser.proofread.suggestion import LOCKED, Dialect


def corrected(text: str, dialect: Dialect = "auto", words: tuple[str, ...] = ()) -> str:
    """Return a text after its sure suggestions."""
    sure = [each for each in Rules(dialect, words)(text) if each.sure]
    for each in sorted(sure, key=lambda s: s.start, reverse=True):
        text = text[: each.start] + each.replacements[0] + text[each.end :]
    return text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("We met on monday, the 3rd of april.", "We met on Monday, the 3rd of April."),
        ("By the time i came, i'm sure it was late.", "By the time I came, I'm sure it was late."),
        ("I like the plan a lot. however, we may lose.",
         "I like the plan a lot. However, we may lose."),
        ("the meeting was long and boring for all of us.",
         "The meeting was long and boring for all of us."),
        ("It took a hour to build in a 8 MB file.",
         "It took an hour to build in an 8 MB file."),
        ("This is an user guide for a honest man.",
         "This is a user guide for an honest man."),
        ("I told you to to bring the the keys.", "I told you to bring the keys."),
        ("We ate alot, infact I recieved too much.", "We ate a lot, in fact I received too much."),
        ("I dont know why it doesnt work, you cant see it.",
         "I don't know why it doesn't work, you can't see it."),
        ("It won\u2019t and you dont care.", "It won\u2019t and you don\u2019t care."),
        ("The seperate definately stays. Seperate them!",
         "The separate definitely stays. Separate them!"),
    ],
)  # fmt: skip
def test_sure_suggestions_correct_a_text(text: str, expected: str) -> None:
    assert corrected(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Use e.g. the first one, vs. the second, at 5 p.m. on Main St. in town.",
        "for (i = 0; i < n; i++) and the i-th item of type a is in vitamin a.",
        "He had had enough, and that that was true was very very clear.",
        "I saw a unicorn, a one-way street, an MRI, an hour, an 11, an SQL and a SQL query.",
        "roses are red\nviolets are blue\nsugar is sweet\nand so are you",
        "- buy milk\n- call the bank\n- a list of things",
        "Dear Tom,\n\nSee you soon.\n\nBest,\nAnna",
        "Das Gef\u00e4ngnis liegt im Norden der Stadt Freiburg im Breisgau.",
        "What was the state that he was in in 1990?",
        "Ms. Alot and Mr. Adress met in Wich. Then Mr. Adress left.",
        "Read https://alot.example/adn or adn@wich.example, in /usr/recieve.",
        f"The {LOCKED * 4} alot{LOCKED} stays {LOCKED}recieve as it was.",
    ],
)
def test_nothing_sure_is_found_where_a_text_may_be_right(text: str) -> None:
    assert corrected(text) == text


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        ("I hope its going well.", "its", "it's"),
        ("The dog lost it's bone.", "it's", "its"),
        ("You could of told me.", "could of", "could have"),
        ("The bag is to heavy for me.", "to", "too"),
        ("Students loose the ability.", "loose", "lose"),
        ("Whose advice all ways came.", "all ways", "always"),
        ("The window freezed again.", "freezed", "froze"),
        ("She dont like it.", "dont", "doesn't"),
        ("He have a car.", "He have", "He has"),
        ("I did not went there.", "went", "go"),
        ("I have went there.", "went", "gone"),
        ("It took six year to build.", "year", "years"),
        ("Most of this conversations are short.", "this", "these"),
        ("This is more better now.", "more better", "better"),
        ("She lives in france.", "france", "France"),
        ("I will finish it in march 2024.", "march", "March"),
        ("We like the photo's of you.", "photo's", "photos"),
        ("I live near by and know everbody.", "everbody", "everybody"),
    ],
)  # fmt: skip
def test_a_suggestion_is_among_those_for_a_judge(text: str, old: str, new: str) -> None:
    offered = {(text[s.start : s.end], r) for s in Rules()(text) for r in s.replacements}
    assert (old, new) in offered


@pytest.mark.parametrize(
    ("text", "revised"),
    [
        ("The app crashes when I open a large PDF I am using version 2.",
         "The app crashes when I open a large PDF. I am using version 2."),
        ("The second one rose nicely but I forgot the salt.",
         "The second one rose nicely, but I forgot the salt."),
        ("In conclusion it is a tool.", "In conclusion, it is a tool."),
        ("When I was at home I slept well.", "When I was at home, I slept well."),
        ("It was late, we went home early.", "It was late. We went home early."),
        ("What are you going to do about it.", "What are you going to do about it?"),
        ("I think that we should go home now", "I think that we should go home now."),
        ("Open the file , then wait.", "Open the file, then wait."),
        ("It is late,then we left.", "It is late, then we left."),
        ("It was too late.Then we left.", "It was too late. Then we left."),
    ],
)  # fmt: skip
def test_punctuation_is_suggested(text: str, revised: str) -> None:
    offered = {
        text[: s.start] + new + text[s.end :] for s in Rules()(text) for new in s.replacements
    }
    assert revised in offered


def test_a_quoted_word_that_begins_a_sentence_is_not_asked_for_a_capital() -> None:
    found = {each.rule for each in Rules()('It is not "us". "we" is a pronoun of this language.')}
    assert "sentence-capital" not in found
    found = {each.rule for each in Rules()('It is not us. "we are here," he said to the man.')}
    assert "sentence-capital" in found


@pytest.mark.parametrize(
    "text",
    ["A short title", "Dear Tom", "- milk and bread", "Chapter 2: I Am Alone in the Dark House"],
)
def test_lines_that_are_no_sentences_are_not_asked_for_a_stop_or_a_capital(text: str) -> None:
    rules = {each.rule for each in Rules()(text)}
    assert not rules & {"final-stop", "first-capital", "intro-comma", "clause-comma"}


@pytest.mark.parametrize(
    ("text", "dialect", "expected"),
    [
        ("The colour of the center is my favourite.", "auto", {("center", "centre")}),
        ("We organize a colour theatre.", "auto", set()),
        ("The program is near the meter.", "british", set()),
        ("Any color is fine.", "auto", set()),
        ("Any color is fine.", "british", {("color", "colour")}),
        ("We organise it in colour.", "american", {("organise", "organize"), ("colour", "color")}),
    ],
)
def test_one_spelling_is_kept(text: str, dialect: Dialect, expected: set[tuple[str, str]]) -> None:
    found = [each for each in Rules(dialect)(text) if each.rule == "dialect"]
    assert expected <= {(text[s.start : s.end], s.replacements[0]) for s in found}
    assert bool(found) == bool(expected)
    assert not any(each.sure for each in found)


def test_words_of_the_user_are_never_reported() -> None:
    text = "We recieve alot."
    assert corrected(text, words=("Recieve",)) == "We recieve a lot."


def test_the_lists_have_one_correction_each_and_no_word_twice() -> None:
    right = set(misspellings().values())
    assert len(misspellings()) > 20_000
    assert not right & misspellings().keys()
    assert all(wrong != new for wrong, new in misspellings().items())
    assert all(british != american for british, american in dialects().values())
    assert all(entry.new for some in entries().values() for entry in some)


PARTS = re.compile(r"[^|]+")
WORDS = PARTS.findall(
    "the|The|a|an|i|I|its|it's|alot|recieve|monday|very|very|had|.|,|!|?|\n|\n\n|-|#|and|but|to|too"
    "|could|of|colour|color|dont|he|have|hour|university|8|11|MRI|\ufffc|\ufffc\ufffc|x.y|/a|so|it"
    "|photo's|\u201cso|\u2019|(it)|1.|march|more|then|better|everyday|PDF|this questions|infront of"
)


def test_spans_are_inside_the_text_and_change_it() -> None:
    rng = random.Random(0)
    for _ in range(300):
        text = "".join(
            rng.choice(WORDS) + rng.choice((" ", " ", " ", "", "  "))
            for _ in range(rng.randrange(40))
        )
        seen = set()
        for each in Rules()(text):
            assert 0 <= each.start <= each.end <= len(text)
            assert LOCKED not in text[each.start : each.end]
            assert each.replacements
            assert each.message[-1] == "."
            for new in each.replacements:
                assert new != text[each.start : each.end]
                assert (each.start, each.end, new) not in seen
                seen.add((each.start, each.end, new))


def test_sure_suggestions_do_not_overlap() -> None:
    rng = random.Random(1)
    for _ in range(300):
        text = " ".join(rng.choice(WORDS) for _ in range(40))
        sure = sorted((s.start, s.end) for s in Rules()(text) if s.sure)
        assert all(a[1] <= b[0] for a, b in pairwise(sure)), text


@pytest.mark.parametrize(
    "part", [" ", "a", "\n", ".", "i ", "a. ", ", ", "it's", "-", "\ufffc", " ,", "- ", "a-", "8,"]
)
def test_the_time_grows_with_the_text_and_not_faster(part: str) -> None:
    def seconds(size: int) -> float:
        text = part * (size // len(part))
        started = time.process_time()
        list(Rules()(text))
        return time.process_time() - started

    seconds(100)
    assert seconds(100_000) < 0.2 + 25 * seconds(10_000)


def test_lines_that_are_wrapped_are_one() -> None:
    text = "This line is wrapped after more than fifty letters, as mails\nare. It has an end.\n"
    assert [line.is_sentence for line in Text(text).lines] == [True]
    assert not [s for s in Rules()(text) if re.search("capital|stop", s.rule)]


def test_articles_follow_the_sound() -> None:
    an = "hour heir honest umbrella FBI 8 80 11 18 x-ray apple unimportant idea"
    a = "university user one European euro 10 house uniform CPU unique yellow"
    assert {article(word) for word in an.split()} == {"an"}
    assert {article(word) for word in a.split()} == {"a"}
