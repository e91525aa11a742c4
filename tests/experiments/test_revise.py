"""The benchmark of revising: sets become natural text and back, drafts have counted mistakes."""

import importlib.util
import json
import random
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from revise import drafts, router, run, sets, speculation

import small_tokenizers
from random_engine import RandomEngine
from reviser.core.actions import ActionVocab
from reviser.core.codec import Codec
from reviser.data.pairs import Pair
from reviser.errors import DataError
from reviser.evals import intervals
from reviser.evals.revision import edits_between
from reviser.generate import Reviser

ROOT = Path(__file__).parents[1]


def page_maker() -> ModuleType:
    """docs/revise_results.py, which is a script."""
    path = ROOT / "docs" / "revise_results.py"
    spec = importlib.util.spec_from_file_location("revise_results", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# -- sets -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tokenised", "natural"),
    [
        ("I do n't know .", "I don't know."),
        ("It 's Ann 's , is n't it ?", "It's Ann's, isn't it?"),
        ('He said " no , " ( twice ) .', 'He said "no," (twice).'),
        ("The students ' ideas : 10 % more ...", "The students' ideas: 10% more..."),
        (
            "He / she met Mr. Smith -- at 5 p.m. today !",
            "He / she met Mr. Smith -- at 5 p.m. today!",
        ),
        ("CA N'T", "CAN'T"),
        ("", ""),
    ],
)
def test_tokens_become_natural_text_and_back(tokenised: str, natural: str) -> None:
    assert sets.detokenize(tokenised) == natural
    assert sets.tokenize(natural) == tokenised


def test_older_quotation_marks_are_read_and_not_written() -> None:
    text = "She is `` rich . ''"
    assert sets.detokenize(text) == 'She is "rich."'
    assert sets.tokenize('She is "rich."') == sets.normalize(text) == 'She is " rich . "'
    assert sets.round_trips([text, "He saw heat(energy) ."]) == 0.5


def unpacked(folder: Path, **files: str) -> Path:
    place = folder / sets.FOLDER / "jfleg-dev"
    place.mkdir(parents=True)
    for name, text in files.items():
        (place / f"{name}.txt").write_text(text, encoding="utf-8")
    return folder


def test_a_set_is_read_line_by_line(tmp_path: Path) -> None:
    references = {f"ref{k}": f"A {k} . \nB\u2028 {k} . \n" for k in range(4)}
    found = sets.jfleg(unpacked(tmp_path, src="a . \nb . \n", **references), "dev")
    assert found.sources == ["a .", "b ."]
    assert found.references == [[f"{name} {k} ." for k in range(4)] for name in "AB"]


def test_a_set_that_is_missing_or_torn_says_so(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="fetch"):
        sets.jfleg(tmp_path, "dev")
    references = {f"ref{k}": "A .\n" for k in range(4)}
    with pytest.raises(DataError, match="2 sources and 1 lines"):
        sets.jfleg(unpacked(tmp_path, src="a .\nb .\n", **references), "dev")


# -- drafts ---------------------------------------------------------------------------------------

WORDS = [f"{a}{b}" for a in ("stone", "river", "light", "cloud") for b in ("house", "way", "fall")]


def paragraphs(count: int = 60) -> list[str]:
    rng = random.Random(0)
    return [" ".join(rng.choices([*WORDS, "a", "is", "in"], k=50)) + "." for _ in range(count)]


def words(text: str) -> int:
    return len(text.split())


def test_drafts_are_of_the_size_and_have_the_mistakes_asked_for() -> None:
    made = list(drafts.drafts(paragraphs(), words, each=2, seed=1))
    kinds = {(draft.size, draft.mistakes) for draft in made}
    room = {(n, k) for n in drafts.SIZES for k in drafts.MISTAKES if k * drafts.APART <= n}
    assert kinds == room
    assert len({draft.id for draft in made}) == len(made) == 2 * len(room)
    for draft in made:
        assert words(draft.clean) == draft.size
        assert draft.tokens == words(draft.draft)
        assert len(edits_between(draft.draft, draft.clean)) == draft.mistakes


def test_drafts_follow_from_their_seed() -> None:
    first, again, other = (
        list(drafts.drafts(paragraphs(), words, each=2, seed=seed, sizes=[100]))
        for seed in (1, 1, 2)
    )
    assert first == again != other
    assert len({draft.clean for draft in first if draft.id.endswith("-0")}) == 1


def test_too_little_text_is_refused() -> None:
    with pytest.raises(DataError, match="have 50 tokens; 100 are needed"):
        list(drafts.drafts(paragraphs(1), words, each=1, seed=0, sizes=[100]))
    with pytest.raises(DataError, match="no room for 2"):
        drafts.corrupted("one two three four", 2, random.Random(0))


def test_drafts_are_written_as_json_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "clean.txt").write_text("\n\n".join(paragraphs(200)), encoding="utf-8")
    small_tokenizers.byte_level().save(str(tmp_path / "tokenizer.json"))
    arguments = [tmp_path / "clean.txt", "--tokenizer", tmp_path, "--each", 1, "-o", tmp_path / "d"]
    monkeypatch.setattr(sys, "argv", ["drafts.py", *map(str, arguments)])
    drafts.main()
    lines = [json.loads(line) for line in (tmp_path / "d").read_text("utf-8").splitlines()]
    assert {line["size"] for line in lines} == {*drafts.SIZES}
    assert all(0.8 * line["size"] - 10 < line["tokens"] < 1.3 * line["size"] + 50 for line in lines)


# -- the runner ------------------------------------------------------------------------------------


def test_what_is_lost_is_told_by_place_content_and_needless_changes() -> None:
    sources = ["a b c d", "a b c d", "a b", "a b"]
    wanted = ["a x c d", "a x c y", "a b", "a b"]
    made = ["a x c d", "a z c d", "a b", "a q"]
    parts = run.parts_of_the_loss(sources, made, wanted)
    assert parts == {
        "wanted": 3,
        "made": 3,
        "place_found": 2 / 3,
        "content_right_there": 1 / 2,
        "made_elsewhere": 1 / 3,
        "left_alone_if_right": 1 / 2,
    }


def speculated(cost: dict[str, Any]) -> dict[str, Any]:
    """As if the rewriter were another engine's, that speculates."""
    rows = [{**row, "n-gram": row["rewriter"]} for row in cost["rows"]]
    lookup = {"prompt_lookup_min": 2, "prompt_lookup_max": 4, "num_speculative_tokens": 16}
    return {"rows": rows, "versions": {"vllm": "1"}, "lookup": lookup, "repeats": 2}


def test_the_router_finds_the_number_of_mistakes_from_which_rewriting_is_cheaper() -> None:
    """Where revising takes 5 steps for a window that needs something, and the model says so."""
    rng = random.Random(0)
    known = [
        router.Known(windows=1, tokens=rng.randrange(10, 60), going=rng.randrange(0, 12))
        for _ in range(200)
    ]
    revising = [round(2 + 5 * draft.going) for draft in known]
    rewriting = [draft.rewriting for draft in known]
    told = router.judged(known, revising, rewriting, list(range(200)))
    assert told["weights"] == pytest.approx([2, 0, 5], abs=1e-6)
    assert told["revised"] == told["better_revised"]
    over = told["over_the_best"]
    assert over["router"]["value"] == pytest.approx(0)
    assert over["always revising"]["low"] > 0.02
    assert over["always rewriting"]["low"] > 0.2


def test_what_speculation_takes_is_counted_by_what_it_guesses() -> None:
    read = [*range(10, 40), 0]
    assert speculation.forwards(read, read[:-1]) == 2 + 2  # two to know where, then 17 at a time
    assert speculation.forwards(read, [n + 100 for n in range(30)]) == 30
    changed = [*range(10, 25), 99, *range(26, 40)]
    assert speculation.forwards(read, changed) == 2 + 1 + 2 + 1
    assert speculation.forwards([1, 2], []) == 0


def test_without_mistakes_the_shortest_revision_and_the_text_are_counted() -> None:
    tokenizer = small_tokenizers.byte_level()
    vocab = ActionVocab.from_tokenizer(
        tokenizer, operators=["delete", "replace"], marks=True, search=True
    )
    codec = Codec(tokenizer)
    drafts = [
        {"size": 25, "mistakes": many, "draft": "The cat sat.", "clean": "The bat sat."}
        for many in (1, 2)
    ]
    told = router.ideal(vocab, codec, drafts)
    (row, _) = told["rows"]
    assert row["rewriter"] == len(codec.encode("The bat sat.")) + 1
    assert row["n-gram"] <= row["rewriter"]
    assert 2 <= row["editor"] <= 6
    assert told["ids_for_a_mistake"]["value"] == pytest.approx(2 * (row["editor"] - 1) / 3)


def test_systems_are_measured_alike_and_the_page_is_made_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intervals, "REPEATS", 20)
    monkeypatch.setattr(run, "BIASES", (0.0, 1.0))
    monkeypatch.setattr(run, "SHARES", (0.2, 0.8))
    tokenizer = small_tokenizers.byte_level()
    vocab = ActionVocab.from_tokenizer(
        tokenizer, operators=["delete", "replace"], marks=True, search=True
    )
    model = Reviser(RandomEngine(vocab), Codec(tokenizer))
    systems = {
        "left alone": run.leave,
        "editor": run.edit(model, max_actions=20),
        "rewriter": run.rewrite(model),
        "blocks": run.replace_blocks(model),
    }
    pairs = [Pair(before=f"The cat sat {n}.", after=f"The dog sat {n}.") for n in range(12)]
    told = run.quality(pairs, systems) | {"notes": run.NOTES}
    alone = told["systems"]["left alone"]
    assert alone["locality"]["value"] == 1
    assert alone["steps"]["value"] == alone["exact_match"]["value"] == 0
    assert told["systems"]["editor"]["median_steps"] > 0
    blocks = told["systems"]["blocks"]  # a random model's outputs are hardly ever in form
    assert blocks["malformed"]["value"] > 0.5
    assert {*blocks["faults"]} <= {"broken", "absent", "ambiguous", "overlapping"}
    assert not told["systems"]["rewriter"]["faults"]
    draft = {"size": 25, "mistakes": 1, "tokens": 9, "draft": "The cat", "clean": "The dog"}
    cost = run.cost([{"id": "25-1-0", **draft}], systems, repeats=2)
    assert [row["editor"]["steps"] > 0 for row in cost["rows"]] == [True, True]
    more = [draft | {"clean": f"The dog {n}"} for n in range(24)]
    route = run.route(more, model, model, None)
    ideal = router.ideal(vocab, Codec(tokenizer), more)
    assert route["drafts"] == route["fitted_on"] == 12
    curve = run.precision(pairs, model, None)
    assert [bias for bias, *_ in curve] == [*run.BIASES]
    shares = run.precision(pairs, model, run.NOTES)
    assert [share for share, *_ in shares] == [*run.SHARES]
    read = [a.steps for a in run.edit(model, notes=1.0)([pair.before for pair in pairs])]
    assert read == [1] * len(pairs)  # what reads it stops, where nothing is noted
    noted = [a.steps for a in run.edit(model, notes=0.0)([pair.before for pair in pairs])]
    assert min(noted) >= 2  # and is asked again where something is
    seen = {"ids": 10, "examples": 2}
    told["models"] = {name: {"parameters": 10, "seen": seen} for name in run.MAKERS}
    told["systems"]["editor"]["whole"] = alone["whole"]
    maker = page_maker()
    monkeypatch.setattr(maker, "RESULTS", tmp_path)
    (tmp_path / "notes.md").write_text("## What was learnt\n")
    for name, content in (
        ("stories", told),
        ("arms", told),
        ("cost", cost),
        ("precision", {"curve": curve, "pairs": 12}),
        ("speculation", speculated(cost)),
        ("router", route),
        ("ideal", ideal),
    ):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    page = maker.page()
    assert "| left alone |" in page
    assert "| 25 | 1 | 2 | 0 | 0 |" in page
    assert "## How it is taught" in page
    assert "## Precision" in page
    assert "Blocks that could not be done: " in page
    assert "| always revising |" in page
    assert "16 tokens at a time" in page


def test_the_page_is_what_the_committed_results_make() -> None:
    assert (ROOT / "docs" / "revise-results.md").read_text("utf-8") == page_maker().page()
