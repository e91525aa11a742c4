"""A causal LM that has no actions is opened by every backend, and scores text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed, so there are no models.")

from reviser.core.actions import ActionVocab
from reviser.engines.base import Act, PlainVocab, Request, Score
from reviser.engines.scorers import begin_of, open_scorer
from reviser.errors import CheckpointError, ConfigError, VocabError
from reviser.model import load
from reviser.models import trunks
from support.asking import answers_of
from support.engine_suite import check_scores
from support.small_models import language_model

REQUEST = Request.continuation(ActionVocab.build(20), [1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return language_model(tmp_path_factory.mktemp("model"))


@pytest.mark.parametrize("own_process", [False, True])
def test_a_plain_language_model_scores_but_does_not_act(folder: Path, own_process: bool) -> None:
    engine, codec, begin = open_scorer(folder, backend="hf", own_process=own_process)
    model: Any = trunks.load_plain(folder)
    assert engine.vocab == PlainVocab(model.config.vocab_size)
    with pytest.raises(ConfigError, match="scores text, but has no actions"):
        engine.add(Act(REQUEST))
    check_scores(lambda asked: answers_of(engine, asked), model, engine.vocab, texts=2)
    (scores,) = answers_of(engine, [Score((begin, *codec.encode("The cat")))])
    assert scores.stop == ()
    engine.close()


def test_it_is_still_no_model_that_edits(folder: Path) -> None:
    with pytest.raises(VocabError, match=r"action_vocab\.json"):
        load(folder)


def test_a_text_begins_as_a_document_does_if_the_tokenizer_has_a_token_for_it(
    folder: Path, tmp_path: Path
) -> None:
    codec = open_scorer(folder, backend="hf").codec
    assert begin_of(folder, codec) == codec.id_of("<|endoftext|>") == 0
    without: Any = type("", (), {"id_of": lambda *_: None})()
    for config, begin in (
        ({"bos_token_id": 5, "eos_token_id": 6}, 5), ({"eos_token_id": 6}, 6),
    ):  # fmt: skip
        (tmp_path / "config.json").write_text(json.dumps(config))
        assert begin_of(tmp_path, without) == begin
    (tmp_path / "config.json").write_text('{"bos_token_id": null}')
    with pytest.raises(CheckpointError, match="names no bos_token_id"):
        begin_of(tmp_path, without)


def test_options_that_cannot_be_are_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"'hff' is not a backend\. Did you mean `hf`"):
        open_scorer(folder, backend="hff")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="not for vLLM"):
        open_scorer(folder, backend="vllm", own_process=True)
