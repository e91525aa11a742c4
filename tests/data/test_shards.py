"""Reading shards: every token where it was written, damage refused, copies in other processes.

The folders here are written by hand, so nothing needs datatrove.
"""

import hashlib
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviser.data.shards import Manifest, Shard, TokenShards
from reviser.errors import DataError

Documents = list[list[list[int]]]  # shards of documents of tokens

SOME: Documents = [[[1, 2, 3], [4]], [[5, 6]], [[7], [8, 9], [65535]]]


def write(folder: Path, documents: Documents, dtype: str = "<u2") -> Manifest:
    shards = []
    for n, shard in enumerate(documents):
        tokens = np.array([token for document in shard for token in document], dtype).tobytes()
        index = np.cumsum([len(document) for document in shard]).astype("<u8").tobytes()
        (folder / f"{n:05d}.ds").write_bytes(tokens)
        (folder / f"{n:05d}.ds.index").write_bytes(index)
        digest = hashlib.sha256(tokens + index).hexdigest()
        size = sum(map(len, shard))
        shards.append(Shard(name=f"{n:05d}.ds", tokens=size, documents=len(shard), sha256=digest))
    manifest = Manifest(
        tokenizer="f" * 64,
        vocabulary=70_000,
        dtype=dtype,
        shards=tuple(shards),
        skipped={"empty": 2},
        damaged=(),
        sources=({"source": "text", "files": 3, "bytes": 10},),
        reader={"split": "blank"},
        versions={"reviser-lm": "0"},
    )
    (folder / "manifest.json").write_text(json.dumps(manifest.to_dict()))
    return manifest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, SOME)
    return tmp_path


@st.composite
def corpora(draw: st.DrawFn) -> tuple[Documents, str]:
    dtype = draw(st.sampled_from(["<u2", "<u4"]))
    tokens = st.integers(0, 2**16 - 1 if dtype == "<u2" else 2**31 - 1)
    documents = st.lists(tokens, min_size=1, max_size=6)
    shards = st.lists(documents, min_size=1, max_size=5)
    return draw(st.lists(shards, min_size=1, max_size=4)), dtype


@given(corpora(), st.data())
def test_every_token_is_read_where_it_was_written(
    corpus: tuple[Documents, str], data: st.DataObject
) -> None:
    documents, dtype = corpus
    flat = [document for shard in documents for document in shard]
    with TemporaryDirectory() as name:
        write(Path(name), documents, dtype)
        shards = TokenShards.open(name, "f" * 64)
        assert len(shards) == len(flat)
        assert shards.lengths.tolist() == [len(document) for document in flat]
        assert shards.lengths.dtype == np.int64
        assert [shards.read(n).tolist() for n in range(len(flat))] == flat
        rows = data.draw(st.lists(st.integers(0, len(flat) - 1)))
        cuts = [sorted(data.draw(st.tuples(*[st.integers(0, len(flat[n]))] * 2))) for n in rows]
        read = shards.read_many(rows, [a for a, _ in cuts], np.array([b for _, b in cuts]))
        assert [part.tolist() for part in read] == [
            flat[n][a:b] for n, (a, b) in zip(rows, cuts, strict=True)
        ]
        assert all(part.dtype == np.int32 and part.flags.writeable for part in read)


def test_the_fingerprint_is_of_the_data_and_not_of_where_it_came_from(tmp_path: Path) -> None:
    manifest = write(tmp_path, SOME)
    elsewhere = replace(manifest, sources=(), versions={}, skipped={}, reader={})
    assert elsewhere.fingerprint == manifest.fingerprint
    other = write(tmp_path, [*SOME[:-1], [[7], [8, 10], [65535]]])  # one token is another
    cut = write(tmp_path, [*SOME[:-1], [[7, 8], [9], [65535]]])  # one end is elsewhere
    assert len({manifest.fingerprint, other.fingerprint, cut.fingerprint}) == 3
    assert Manifest.load(tmp_path) == cut
    assert TokenShards.open(tmp_path).fingerprint == cut.fingerprint
    (tmp_path / "manifest.json").unlink()
    with pytest.raises(DataError, match=r"There is no manifest.json .*no shards"):
        TokenShards.open(tmp_path)


def test_a_pickled_copy_holds_no_data_and_reads_the_same(folder: Path) -> None:
    shards = TokenShards.open(folder)
    before = len(pickle.dumps(shards))
    expected = shards.read(1)
    assert shards.lengths.sum() == 10
    assert len(pickle.dumps(shards)) == before
    copy = pickle.loads(pickle.dumps(shards))  # noqa: S301
    assert np.array_equal(copy.read(1), expected)


def test_reading_imports_neither_torch_nor_datatrove() -> None:
    code = (
        "import sys, reviser.data.shards\n"
        "heavy = {'torch', 'datatrove', 'transformers', 'pyarrow', 'numba'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_memory_does_not_grow_with_the_tokens(tmp_path: Path) -> None:
    write(tmp_path, [[[n % 1000] * 4000 for n in range(4000)]])  # 32 MB
    code = (
        "import resource\n"
        "from reviser.data.shards import TokenShards\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        f"shards = TokenShards.open({str(tmp_path)!r})\n"
        "assert len(shards.lengths) == 4000\n"
        "shards.read_many([0, 2000, 3999], [0, 5, 0], [9, 9, 9])\n"
        "grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before\n"
        "assert grown < 8000, grown\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# -- what is refused ------------------------------------------------------------------------------


def test_another_tokenizers_shards_are_refused(folder: Path) -> None:
    with pytest.raises(DataError, match=r"another tokenizer.* ffffffffffff, but .* is abc"):
        TokenShards.open(folder, "abc")


@pytest.mark.parametrize("name", ["00001.ds", "00002.ds.index"])
@pytest.mark.parametrize("change", [-1, 1, None])
def test_a_file_of_another_size_is_named_with_both_sizes(
    name: str, change: int | None, folder: Path
) -> None:
    path = folder / name
    size = path.stat().st_size
    if change is None:
        path.unlink()
    else:
        os.truncate(path, size + change)
    has = "is missing" if change is None else f"has {size + change} bytes"
    with pytest.raises(DataError, match=f"{name}' {has}; the manifest says {size}"):
        TokenShards.open(folder)


@pytest.mark.parametrize("ends", [[1, 1, 4], [0, 2, 4], [1, 3, 5]])
def test_an_index_that_does_not_fit_the_tokens_is_refused(ends: list[int], folder: Path) -> None:
    (folder / "00002.ds.index").write_bytes(np.array(ends, "<u8").tobytes())
    with pytest.raises(DataError, match=r"00002.ds.index' do not increase to 4"):
        TokenShards.open(folder)


def broken_manifests() -> Iterator[tuple[str, str]]:
    with TemporaryDirectory() as name:
        content = write(Path(name), SOME).to_dict()
    content = json.loads(json.dumps(content))
    yield "[]", "Cannot read"
    yield json.dumps(content)[:-9], "Cannot read"
    yield json.dumps({**content, "format": 2}), "has format 2; this version reads 1"
    yield json.dumps({k: v for k, v in content.items() if k != "dtype"}), "KeyError.*dtype"
    yield json.dumps({**content, "dtype": "O"}), "dtype is 'O'"
    yield json.dumps({**content, "shards": [{"name": "x"}]}), "Cannot read"
    for change in ({"name": "../x.ds"}, {"tokens": 0}, {"documents": "many"}, {"more": 1}):
        shards = [{**content["shards"][0], **change}]
        yield json.dumps({**content, "shards": shards}), "Cannot read"


@pytest.mark.parametrize(("text", "sentence"), list(broken_manifests()))
def test_a_broken_manifest_is_refused(text: str, sentence: str, folder: Path) -> None:
    (folder / "manifest.json").write_text(text)
    with pytest.raises(DataError, match=sentence):
        TokenShards.open(folder)
