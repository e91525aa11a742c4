"""A film follows the executor step by step; the page holds films as data that never runs."""

import base64
import hashlib
import json
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from experiments import player_pages
from reviser.cli import main
from reviser.core.actions import Action, ActionVocab, Kind
from reviser.core.trajectory import Trajectory
from reviser.errors import DataError
from reviser.player import film, page
from reviser.writing.rollout import Rollout
from support import films, small_tokenizers
from support.paths import ROOT

MODEL, REPLAYER = films.replayer()
SEARCHER, SEARCHES = films.replayer(search=True)
DRAFT = f"It have {films.MULTIBYTE} a end."
FIXED = f"It has {films.MULTIBYTE} an end."

pieces = st.sampled_from([films.MULTIBYTE, "The", " cat", "\n", "é", "😀", "", "ש", "e\u0301"])
prompts = st.lists(pieces, max_size=4).map("".join)
seeds = st.integers(0, 2**32)


class Markup(HTMLParser):
    """The tags of a page, and what its scripts and styles hold."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.held: dict[str, str] = {}
        self._inside = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag in ("script", "style"):
            self._inside = dict(attrs).get("type") or tag
            self.held[self._inside] = ""

    def handle_endtag(self, _: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.held[self._inside] += data

    @property
    def films(self) -> list[dict[str, Any]]:
        told: list[dict[str, Any]] = json.loads(self.held["application/json"])["films"]
        return told


def texts_of(told: dict[str, Any]) -> list[str]:
    """What a viewer that counts UTF-16 units, and knows nothing else, makes of a film."""
    units = told["text"].encode("utf-16-le", "surrogatepass")
    texts = [told["text"]]
    columns = zip(told["offset"], told["removed"], told["inserted"], told["cursors"], strict=True)
    for offset, removed, inserted, cursor in columns:
        gone, put = (text.encode("utf-16-le", "surrogatepass") for text in (removed, inserted))
        assert units[2 * offset : 2 * offset + len(gone)] == gone
        units = units[: 2 * offset] + put + units[2 * offset + len(gone) :]
        texts.append(units.decode("utf-16-le"))
        units[: 2 * cursor].decode("utf-16-le")  # the cursor stands in no character
        assert cursor <= len(units) // 2
    return texts


# -- films ----------------------------------------------------------------------------------------


@given(prompt=prompts, seed=seeds, most=st.integers(1, 60))
def test_a_viewer_sees_the_executors_text_at_every_step(prompt: str, seed: int, most: int) -> None:
    rollout = MODEL.generate(prompt, seed=seed, max_actions=most)
    told = Markup(page.to_html([REPLAYER.film_of(rollout)])).films[0]
    assert texts_of(told) == list(films.texts(REPLAYER, rollout))
    assert told["logprob"] == [-1.0] * rollout.statistics.actions


@given(parts=st.lists(prompts, min_size=2, max_size=4), seed=seeds)
def test_what_stood_behind_a_gap_is_given_not_chosen(parts: list[str], seed: int) -> None:
    rollout = MODEL.infill("{}".join(parts), seed=seed, max_actions=20)
    told = Markup(page.to_html([REPLAYER.film_of(rollout)])).films[0]
    assert texts_of(told) == list(films.texts(REPLAYER, rollout))
    assert told["given"] == list(rollout.trajectory.no_loss)
    assert [told["logprob"][n] for n in told["given"]] == [None] * len(told["given"])
    assert len(told["logprob"]) - len(told["given"]) == len(rollout.logprobs)


def test_each_id_of_an_action_has_its_word() -> None:
    vocab = REPLAYER.vocab
    assert vocab.replace is not None
    assert vocab.span_delete is not None
    assert vocab.end is not None
    one, two = vocab.move_id(1), vocab.move_id(-1)
    ids = [65, 66, two, one, vocab.replace, 67, vocab.span_delete, one, vocab.end, vocab.stop]
    shown = REPLAYER.film(Trajectory(restoration=tuple(ids)))
    assert [step.action for step in shown.steps] == [
        "insert", "insert", "move -1", "move +1", "replace", "by", "span delete", "+1", "end",
        "stop",
    ]  # fmt: skip


@pytest.mark.parametrize("ids", [[10**6], [REPLAYER.vocab.move_id(8)], [REPLAYER.vocab.stop] * 2])
def test_actions_that_cannot_be_are_refused(ids: list[int]) -> None:
    with pytest.raises(DataError, match="cannot be replayed with this model"):
        REPLAYER.film(Trajectory(restoration=tuple(ids)))


# -- revisions and searches -----------------------------------------------------------------------


@pytest.mark.parametrize("instruction", ["", "Fix it: "])
@pytest.mark.parametrize("address", ["moves", "search"])
def test_a_revision_begins_with_its_draft(instruction: str, address: Any) -> None:
    made = films.revised(SEARCHES, DRAFT, FIXED, instruction=instruction, address=address)
    shown = SEARCHES.film_of(made)
    assert (shown.text, shown.cursor, shown.final) == (DRAFT, 0, FIXED)
    assert len(shown.steps) == made.statistics.actions
    assert not any(step.in_preamble for step in shown.steps)
    assert [step.logprob for step in shown.steps] == [-1.0] * made.statistics.actions
    texts = texts_of(Markup(page.to_html([shown])).films[0])
    assert (texts[0], texts[-1]) == (DRAFT, FIXED)
    assert dict(shown.facts).get("Instruction", "") == instruction


def test_a_draft_is_the_beginning_without_a_delimiter_too() -> None:
    codec = SEARCHES.codec
    size = len(codec.token_bytes)
    bare = ActionVocab(
        tokens=size, size=size + 10, max_move=8, stop=size, first_move=size + 2, delete=size + 1
    )
    replayer = film.Replayer(bare, codec)
    made = films.revised(replayer, DRAFT, FIXED, address="moves")
    assert len(made.trajectory.prefix) == len(codec.encode(DRAFT))
    shown = replayer.film_of(made)
    assert (shown.text, shown.cursor, shown.final) == (DRAFT, 0, FIXED)
    assert not any(step.in_preamble for step in shown.steps)


def test_a_search_is_told_by_what_it_looks_for_and_where_that_is() -> None:
    vocab, codec = SEARCHES.vocab, SEARCHES.codec

    def tokens(text: str) -> tuple[int, ...]:
        return tuple(token for char in text for token in codec.encode(char))

    first, accent = tokens("ac"), tokens("é")
    searches = [vocab.spell(Action(Kind.FIND, tokens=sought)) for sought in (first, accent)]
    assert vocab.mark is not None
    assert vocab.back is not None
    ids = (vocab.mark, *tokens("ab\U0001f600ac. é"), vocab.back)
    trajectory = Trajectory(restoration=(*ids, *searches[0], 66, *searches[1], vocab.stop))
    shown = SEARCHES.film(trajectory, start=len(ids))
    told = [(step.action, step.found) for step in shown.steps]
    units = shown.text.encode("utf-16-le")
    assert told[0] == ("find", None)
    assert told[1] == ("find", (0, 1))  # an a, the first
    assert told[2] == ("find", (4, 6))
    assert told[3] == ("found", (4, 6))
    assert units[8:12].decode("utf-16-le") == "ac"
    assert told[4] == ("insert", None)
    assert told[-2] == ("found", (9, 10))
    assert {word for word, _ in told[5:-2]} == {"find"}
    assert told[-1] == ("stop", None)
    columns = Markup(page.to_html([shown])).films[0]
    assert columns["found"] == {
        str(n): [*place] for n, (_, place) in enumerate(told) if place is not None
    }


def test_replay_shows_each_part_of_a_revision(tmp_path: Path) -> None:
    parts = [films.revised(SEARCHES, DRAFT, FIXED).to_dict() for _ in range(2)]
    file = lines(tmp_path / "a.jsonl", {"text": FIXED, "rollouts": parts}, *parts)
    folder = tmp_path / "model"
    folder.mkdir()
    SEARCHES.vocab.save(folder)
    tokenizer = small_tokenizers.byte_level()
    SEARCHES.vocab.extend(tokenizer)
    tokenizer.save(str(folder / "tokenizer.json"))
    found, failed = film.read([file], model=folder)
    assert ([each.text for each in found], failed) == ([DRAFT] * 4, 0)
    for limit in (1, 2, 3):
        assert len(film.read([file], model=folder, limit=limit)[0]) == limit


# -- the page -------------------------------------------------------------------------------------


def harmless() -> film.Film:
    return replace(films.hostile(), name="a", text="a", steps=(), final="a", facts=())


def test_text_never_becomes_markup() -> None:
    attack = page.to_html([films.hostile()], title=films.HOSTILE, note=films.HOSTILE)
    plain = page.to_html([harmless()], title="a", note="a")
    found, expected = Markup(attack), Markup(plain)
    assert found.tags == expected.tags
    assert found.held["module"] == expected.held["module"]
    assert found.attributes == expected.attributes
    told = found.films[0]
    assert (told["name"], told["text"], told["words"][0]) == (films.HOSTILE,) * 3
    assert told["facts"] == [[films.HOSTILE, films.HOSTILE]]
    assert told["logprob"] == [None, -1.0]


@given(st.text() | st.text(alphabet="<>&\"'/!-script{}\u2028\u2029\\"))
def test_embedded_json_reads_back_and_holds_no_markup(text: str) -> None:
    written = page.embedded({text: [text]})
    assert json.loads(written) == {text: [text]}
    assert not re.search("[<>&\u2028\u2029\ud800-\udfff]", written)


def test_the_policy_allows_the_pages_own_script_and_style_and_nothing_else() -> None:
    found = Markup(page.to_html([harmless()]))
    policy = next(v for k, v in found.attributes if k == "content" and "default-src" in (v or ""))

    def hashed(text: str) -> str:
        return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

    assert policy == (
        f"default-src 'none'; script-src 'sha256-{hashed(found.held['module'])}';"
        f" style-src 'sha256-{hashed(found.held['style'])}'; base-uri 'none'; form-action 'none'"
    )


def test_the_page_asks_for_nothing_else() -> None:
    found = Markup(page.to_html([harmless()]))
    assert not {"link", "img", "iframe", "object", "base", "form"} & {*found.tags}
    assert not {"src", "href", "srcset", "style"} & {name for name, _ in found.attributes}
    assert not [name for name, _ in found.attributes if name.startswith("on")]
    script = found.held["module"] + found.held["style"]
    assert not re.search(r"https?:|//[a-z]|url\(|@import|fetch\(|XMLHttp|eval\(", script)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write", script)


@pytest.mark.full
def test_the_same_films_give_the_same_bytes() -> None:
    code = (
        "from support import films; from reviser.player import page;"
        " print(page.to_html([films.long(50)]))"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", code], cwd=Path(films.__file__).parents[1], check=True,
            capture_output=True,
        ).stdout
        for _ in range(2)
    }  # fmt: skip
    assert len(runs) == 1


# -- the gallery ----------------------------------------------------------------------------------


def test_the_gallery_ends_with_the_papers_texts() -> None:
    fixtures = ROOT / "tests" / "fixtures" / "paper.json"
    printed = json.loads(fixtures.read_text(encoding="utf-8"))["printed"]
    told = Markup(player_pages.pages()["gallery.html"]).films
    assert [each["name"] for each in told] == [each["name"] for each in printed]
    for each, expected in zip(told, printed, strict=True):
        assert len(each["offset"]) == len(expected["actions"])
        # the print loses escapes, never a letter or a digit
        last, text = (
            "".join(c for c in t if c.isalnum()) for t in (texts_of(each)[-1], expected["text"])
        )
        assert last == text


# -- files and the command ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the player needs of a model: its tokenizer and its actions."""
    path = tmp_path_factory.mktemp("model")
    tokenizer = small_tokenizers.byte_level()
    vocab = type(REPLAYER.vocab).from_tokenizer(
        tokenizer, operators=("delete", "replace", "swap", "span_delete", "span_move", "span_copy"),
        max_move=8,
    )  # fmt: skip
    assert vocab == REPLAYER.vocab
    vocab.save(path)
    tokenizer.save(str(path / "tokenizer.json"))
    return path


def rollout(seed: int, **provenance: str) -> Rollout:
    made = MODEL.generate(films.MULTIBYTE, seed=seed, max_actions=12)
    return replace(made, provenance=provenance)


def lines(path: Path, *objects: Any) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in objects), encoding="utf-8")
    return path


@pytest.fixture
def file(tmp_path: Path, folder: Path) -> Path:
    made = [rollout(n, model=str(folder)).to_dict() for n in range(3)]
    nested = {"id": "x", "prompt": "y", "continuation": "z", "rollout": made[2]}
    failed = {"line": 2, "error": "It failed."}
    return lines(tmp_path / "rollouts.jsonl", {"line": 1, **made[0]}, failed, made[1], nested)


def run(*args: object) -> Result:
    return CliRunner().invoke(main, ["replay", *map(str, args)])


def test_replay_writes_a_page_of_a_file_of_rollouts(file: Path, tmp_path: Path) -> None:
    result = run(file, "-o", tmp_path / "page.html", "--title", "Mine")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        f"{tmp_path / 'page.html'}: 3 rollouts",
        "left out, an error instead of a rollout: 1",
    ]
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    told = Markup(text).films
    expected = [rollout(n).text for n in range(3)]
    assert [texts_of(each)[-1] for each in told] == expected
    assert "<title>Mine</title>" in text


def test_a_model_that_moved_is_named(tmp_path: Path, folder: Path) -> None:
    file = lines(tmp_path / "a.jsonl", rollout(1, model="/nowhere/at/all").to_dict())
    result = run(file, "-o", tmp_path / "a.html")
    assert result.exit_code == 1
    assert "its model '/nowhere/at/all' cannot be opened; name its folder with" in result.stderr
    assert run(file, "-o", tmp_path / "a.html", "--model", folder).exit_code == 0
    assert film.read([file], model=folder)[0][0].name.endswith("(all)")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"error": "It failed."}, "There are no rollouts in"),
        ({"prompt": "a", "continuation": "b"}, "Line 1 of .* has no 'trajectory'"),
        (rollout(1).to_dict(), "Line 1 of .* does not say which model wrote it. Name that with"),
        ([], "Line 1 of .* must be a JSON object"),
    ],
)
def test_lines_that_cannot_be_played_are_told(content: Any, sentence: str, tmp_path: Path) -> None:
    file = lines(tmp_path / "a.jsonl", content)
    with pytest.raises(DataError, match=sentence):
        film.read([file])


@pytest.mark.parametrize(
    ("args", "status", "sentence"),
    [
        (["none.jsonl", "-o", "a.html"], 1, "error: There is no file 'none.jsonl'"),
        (["rollouts.jsonl"], 2, "Missing option '-o'"),
        (["rollouts.jsonl", "-o", "rollouts.jsonl/a.html"], 1, "error: Cannot write"),
    ],
)
def test_wrong_arguments_are_refused(
    file: Path, args: list[Any], status: int, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    result = run(*args)
    assert result.exit_code == status
    assert sentence in result.stderr
    assert [path.name for path in file.parent.iterdir()] == ["rollouts.jsonl"]
