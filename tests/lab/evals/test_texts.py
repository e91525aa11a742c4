"""Prompts drawn by seed alone, and samples of any system read the same way."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tokenizers import pre_tokenizers
from tokenizers.trainers import BpeTrainer

from reviser.core.actions import ActionVocab
from reviser.core.codec import Codec
from reviser.errors import ConfigError, DataError
from reviser.lab.evals import texts
from reviser.lab.evals.texts import Prompt, Protocol, Sample
from reviser.model import Reviser
from reviser.writing.tasks import Continue
from support import small_tokenizers
from support.scripted import ScriptedEngine

SMALL = {"prefix_tokens": 5, "total_tokens": 12, "min_tokens": 9, "max_tokens": 40}


@pytest.fixture(scope="module")
def codec() -> Codec:
    return Codec(small_tokenizers.byte_level())


def documents(count: int = 60) -> list[str]:
    rng = Random(4)
    words = " ".join(small_tokenizers.LINES).split()
    return [" ".join(rng.choices(words, k=rng.randint(1, 16))) for _ in range(count)]


def jsonl(path: Path, records: list[Any]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def test_a_prompt_is_the_first_tokens_of_its_document(codec: Codec) -> None:
    drawn, left_out = texts.choose_prompts(documents(), codec, Protocol(**SMALL, prompts=20))
    assert list(drawn) == [123, 124, 125]
    assert left_out.keys() == {"not of 9 to 40 tokens", "no whole prefix"}
    for prompt in drawn[123]:
        (document,) = [d for d in documents() if d.startswith(prompt.prompt + prompt.reference)]
        tokens = codec.encode(document)
        assert codec.encode(prompt.prompt) == tokens[:5]
        assert 9 <= len(tokens) <= 40
        texts_so_far = [codec.decode(tokens[:n]) for n in range(5, min(12, len(tokens)) + 1)]
        whole = [text for text in texts_so_far if document.startswith(text)]
        assert prompt.prompt + prompt.reference == whole[-1]
        assert prompt.reference
    assert len({prompt.id for prompt in drawn[123]}) == 20


def test_a_prefix_that_reads_otherwise_without_its_rest_is_left_out() -> None:
    """Two line ends before a word are two tokens, at the end of a text one: as GPT-2 reads them."""
    tokenizer = small_tokenizers.byte_level()
    trainer = BpeTrainer(
        vocab_size=257,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["\n\n"] * 3, trainer)
    codec = Codec(tokenizer)
    assert len(codec.encode("ab\n\ncd")) == 6
    assert len(codec.encode("ab\n\n")) == 3
    cuts = {
        n: texts._cut(
            "ab\n\ncd", codec, Protocol(prefix_tokens=n, total_tokens=6, min_tokens=6, max_tokens=6)
        )
        for n in range(1, 6)
    }
    assert [n for n, cut in cuts.items() if cut == "no whole prefix"] == [4]
    assert {cut.prompt + cut.reference for cut in cuts.values() if isinstance(cut, Prompt)} == {
        "ab\n\ncd"
    }


def test_the_paper_s_numbers_are_the_defaults() -> None:
    protocol = Protocol()
    assert (protocol.prefix_tokens, protocol.total_tokens) == (35, 180)
    assert (protocol.min_tokens, protocol.max_tokens) == (144, 216)
    assert (protocol.prompts, protocol.seeds) == (1000, (123, 124, 125))


def test_a_draw_depends_on_the_seed_and_not_on_the_order(codec: Codec) -> None:
    found = documents()
    protocol = Protocol(**SMALL, prompts=10, seeds=(1, 2))
    one = texts.choose_prompts(found, codec, protocol)[0]
    turned = [*found[:20:-1], *found[20::-1]]
    assert texts.choose_prompts(turned, codec, protocol)[0] == one
    assert one[1] != one[2]
    fewer = texts.choose_prompts(turned, codec, Protocol(**SMALL, prompts=4, seeds=(2,)))[0]
    assert fewer[2] == one[2][:4]


def test_repeated_documents_count_once(codec: Codec) -> None:
    drawn, left_out = texts.choose_prompts(documents() * 3, codec, Protocol(**SMALL, prompts=20))
    assert len({prompt.id for prompt in drawn[123]}) == 20
    usable = sum(isinstance(texts._cut(d, codec, Protocol(**SMALL)), Prompt) for d in documents())
    assert left_out["repeated"] == 2 * usable


def test_too_little_text_is_told(codec: Codec) -> None:
    with pytest.raises(
        DataError, match=r"Only \d+ documents .* \(left out: not of 9 to 40 tokens: \d+"
    ):
        texts.choose_prompts(documents(), codec, Protocol(**SMALL))


@pytest.mark.parametrize(
    "change",
    [{"prefix_tokens": 0}, {"prefix_tokens": 12}, {"max_tokens": 8}, {"prompts": 0}, {"seeds": ()}],
)
def test_a_protocol_that_cannot_be_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Protocol(**SMALL | change)


def test_prompts_come_back_from_their_file(tmp_path: Path) -> None:
    prompts = [
        Prompt(id="a", prompt="\u2028é", reference=" x"),
        Prompt(id="2", prompt="", reference=""),
    ]
    texts.write_prompts(tmp_path / "p.jsonl", prompts)
    assert texts.read_prompts(tmp_path / "p.jsonl") == prompts
    line = {"id": 1, "prompt": "a", "reference": "b"}
    jsonl(tmp_path / "p.jsonl", [line, line])
    assert len(texts.read_prompts(tmp_path / "p.jsonl")) == 1
    jsonl(tmp_path / "p.jsonl", [line, line | {"reference": "c"}])
    with pytest.raises(DataError, match=r"Line 2 .* has the id '1' of another prompt"):
        texts.read_prompts(tmp_path / "p.jsonl")


def test_a_file_of_rollouts_becomes_samples(codec: Codec, tmp_path: Path) -> None:
    vocab = ActionVocab.from_tokenizer(small_tokenizers.byte_level(), max_move=8)
    script = [*codec.encode(" sat."), vocab.stop]
    model = Reviser(ScriptedEngine(vocab, script), codec)
    rollouts = list(model.run_many(map(Continue, ["The cat", "é"]), seed=7))
    lines = [{"line": 1} | rollouts[0].to_dict(), {"line": 2, "id": "e"} | rollouts[1].to_dict()]
    path = jsonl(tmp_path / "ours.jsonl", lines)
    found = texts.read_samples(path)
    assert [(s.system, s.id, s.prompt, s.continuation) for s in found] == [
        ("ours", "1", "The cat", " sat."),
        ("ours", "e", "é", " sat."),
    ]
    assert [sample.rollout for sample in found] == rollouts


def test_any_other_system_can_be_read(tmp_path: Path) -> None:
    lines = [
        {"prompt": "The", "text": "The cat", "id": "a"},
        {"prompt": "The", "continuation": " dog", "id": 7, "system": "x"},
        {"prompt": "The", "continuation": ""},
    ]
    path = jsonl(tmp_path / "other.jsonl", lines)
    assert texts.read_samples(path) == [
        Sample(system="other", id="a", prompt="The", continuation=" cat"),
        Sample(system="x", id="7", prompt="The", continuation=" dog"),
        Sample(system="other", id="3", prompt="The", continuation=""),
    ]
    assert [s.system for s in texts.read_samples(path, system="y")] == ["y"] * 3
    assert texts.read_samples(path)[0].text == "The cat"


def test_references_come_from_the_prompts(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "o.jsonl", [{"prompt": "The", "text": "The cat", "id": "a"}])
    prompts = [Prompt(id="a", prompt="The", reference=" dog")]
    (sample,) = texts.read_samples(path, prompts=prompts)
    assert sample.reference == " dog"
    with pytest.raises(DataError, match="a different text for prompt 'a'"):
        texts.read_samples(path, prompts=[Prompt(id="a", prompt="A", reference="")])
    with pytest.raises(DataError, match="prompt 'a', which is not among the prompts"):
        texts.read_samples(path, prompts=[Prompt(id="b", prompt="The", reference="")])


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("{", "is not JSON"),
        ("[]", "must be a JSON object"),
        ('{"text": "a"}', "needs a text as its 'prompt'"),
        ('{"prompt": "a"}', "either a 'text' or a 'continuation'"),
        ('{"prompt": "a", "text": "ab", "continuation": "b"}', "either a 'text'"),
        ('{"prompt": "a", "text": "b"}', "does not begin with its 'prompt'"),
        ('{"prompt": "a", "continuation": 3}', "needs a text as its 'continuation'"),
        ('{"prompt": "a", "continuation": "\\ud800"}', "half a surrogate pair"),
        ('{"prompt": "a", "text": "ab", "id": [1]}', "needs a text or a whole number"),
        ('{"prompt": "a", "text": "ab", "system": 1}', "the system 1; it must be a text"),
        ('{"prompt": "a", "text": "ab", "reference": 1}', "a 'reference' that is not a text"),
        ('{"prompt": "a", "text": "ab", "rollout": {}}', "This is not a rollout"),
        ('{"error": "too long"}', r"holds an error instead of a text \(too long\)"),
        ("", "There are no samples"),
    ],
)
def test_errors_name_the_line(tmp_path: Path, line: str, sentence: str) -> None:
    path = tmp_path / "o.jsonl"
    path.write_text(f"{line}\n", encoding="utf-8")
    with pytest.raises(DataError, match=sentence) as caught:
        texts.read_samples(path)
    assert "o.jsonl" in str(caught.value)
