"""The sets of pairs of benchmarks/revise/prepare.py, from a small folder of made-up data."""

import io
import json
import lzma
import runpy
import sys
import tarfile
from pathlib import Path

import pytest

from reviser.data.pairs import read_pairs

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "revise" / "prepare.py"


def sentence(n: int) -> str:
    """One that has no eight words in common with another's."""
    return f"Number {n} of the {n + 1000} cats sat on mat {n + 2000} and slept {n + 3000} hours."


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    for name in ("revisions-git", "argrewrite", "openstax"):
        (folder / name).mkdir(parents=True)
    sources = [("openstax/osbooks-psychology", "CC-BY-4.0"), ("a/book", "MIT"),
               ("b/book", "CC-BY-NC-SA-3.0")]  # fmt: skip
    records = [
        {"src": source, "licence": licence, "before": sentence(100 * i + n), "commit": "c",
         "after": sentence(100 * i + n).replace("sat", "lay")}
        for i, (source, licence) in enumerate(sources) for n in range(20)
    ]  # fmt: skip
    records.append(records[0] | {"src": "a/book", "licence": "MIT"})  # in a test, too
    with lzma.open(folder / "revisions-git/revisions_para.jsonl.xz", "wt") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)
    essays = [
        {"essay": str(n), "draft1": f"{sentence(1000 + n)}\n\n{sentence(2000 + n)}",
         "draft2": f"{sentence(1000 + n)} So.\n\tNew.\n{sentence(2000 + n)}",
         "draft3": f"{sentence(1000 + n)} So it was."}
        for n in range(1, 15)
    ]  # fmt: skip
    (folder / "argrewrite/argrewrite_v2_drafts.json").write_text(json.dumps(essays))
    with tarfile.open(folder / "openstax/openstax_prose_ccby.tar.xz", "w:xz") as archive:
        for i, book in enumerate(["psychology", "sociology"]):
            text = "\n".join(sentence(3000 + 100 * i + n) for n in range(50)) + "\nOur imprint.\n"
            member = tarfile.TarInfo(f"{book}.by.txt")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return folder


def test_sets_are_held_out_by_source_and_no_training_text_is_near_a_test(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "pairs"
    monkeypatch.setattr(sys, "argv", ["prepare.py", str(data), "-o", str(output)])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    told = capsys.readouterr().out
    sets = {
        (split, name): list(read_pairs(output / split / f"{name}.jsonl.xz"))
        for split in ("train", "test")
        for name in ("revisions", "essays", "mistakes")
    }
    changed = {key: sum(not p.is_unchanged for p in pairs) for key, pairs in sets.items()}
    assert changed["train", "revisions"] == changed["test", "revisions"] == 20
    assert (changed["train", "essays"], changed["test", "essays"]) == (24, 4)
    assert len(sets["train", "mistakes"]) == 50
    assert len(sets["test", "mistakes"]) == 51
    assert "revisions: 1 near a test text" in told
    assert "mistakes: 1 near a test text" in told
    train, test = (
        {pair.after for (split, _), pairs in sets.items() if split == wanted for pair in pairs}
        for wanted in ("train", "test")
    )
    assert not train & test
    assert all(
        pair.more["licence"] in ("CC-BY-4.0", "MIT") for some in sets.values() for pair in some
    )
