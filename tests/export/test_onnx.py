"""The ONNX graph against Transformers, and what cannot be exported."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from reviser.cli import main
from reviser.errors import ConfigError
from support import exported, small_models

torch = pytest.importorskip("torch")
CLOSE = 1e-4


@pytest.fixture(scope="module")
def session() -> Any:
    folder = exported.site() / "model"
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(folder / "model.onnx"), options)


def read(session: Any, ids: Any, past: list[Any]) -> tuple[Any, list[Any]]:
    names = [each.name for each in session.get_inputs()]
    logits, *present = session.run(None, dict(zip(names, [ids, *past], strict=True)))
    return logits, present


def test_logits_are_those_of_transformers_with_and_without_cache(session: Any) -> None:
    from reviser.models import trunks

    facts = json.loads((exported.site() / "model" / "model.json").read_text("utf-8"))
    layers, heads, width = facts["cache"]
    trunk, vocab = trunks.load(exported.MODEL, dtype=torch.float32)
    ids = np.random.default_rng(1).integers(0, vocab.size, (1, facts["context"]))
    with torch.no_grad():
        expected = trunk(torch.tensor(ids)).logits.numpy()
    empty = [np.zeros((1, heads, 0, width), np.float32)] * (2 * layers)
    whole, present = read(session, ids, empty)
    assert np.abs(whole - expected).max() < CLOSE
    assert present[0].shape == (1, heads, facts["context"], width)
    parts, past, at = [], empty, 0
    for size in (1, 1, 150, 1, 7, facts["context"] - 160):
        logits, past = read(session, ids[:, at : at + size], past)
        parts.append(logits)
        at += size
    assert np.abs(np.concatenate(parts, axis=1) - expected).max() < CLOSE


# -- refusals -------------------------------------------------------------------------------------


def test_a_model_with_other_actions_is_refused_with_their_names(tmp_path: Path) -> None:
    from reviser.export.site import check

    small_models.editor(tmp_path)
    with pytest.raises(ConfigError, match="the actions delete"):
        check(tmp_path)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"normalizer": {"type": "NFC"}}, "a normalizer"),
        ({"pre_tokenizer": {"type": "Whitespace"}}, "its pre-tokenizer"),
        ({"model": {"type": "Unigram"}}, "a Unigram model"),
    ],
)
def test_a_tokenizer_that_the_page_cannot_mirror_is_refused(
    tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    from reviser.export.site import check

    content = json.loads((exported.MODEL / "tokenizer.json").read_text("utf-8"))
    (tmp_path / "tokenizer.json").write_text(json.dumps(content | change), encoding="utf-8")
    shutil.copy(exported.MODEL / "action_vocab.json", tmp_path)
    with pytest.raises(ConfigError, match=reason):
        check(tmp_path)


def test_a_missing_runtime_is_named_before_anything_is_exported(tmp_path: Path) -> None:
    from reviser.export.site import export_site

    with pytest.raises(ConfigError, match=r"npm install onnxruntime-web@1\.30\.0"):
        export_site(exported.MODEL, tmp_path / "page", runtime=tmp_path)
    assert not (tmp_path / "page").exists()


def test_the_command_reports_it_in_one_line(tmp_path: Path) -> None:
    words = ["export", str(exported.MODEL), "--to", "web", "-o", str(tmp_path / "page")]
    result = CliRunner().invoke(main, [*words, "--ort", str(tmp_path)])
    assert result.exit_code == 1
    assert result.stderr.startswith("error: There is no ort.wasm.bundle.min.mjs in ")
