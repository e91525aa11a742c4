"""Files of pairs: complete after writing and reading, and a bad line refused by its number."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviser.data.pairs import (
    Pair,
    aligned,
    read_pairs,
    similarity,
    with_unchanged,
    write_pairs,
)
from reviser.errors import ConfigError, DataError

SUFFIXES = ["", ".gz", ".xz", *[".zst"] * (find_spec("pyarrow") is not None)]
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
PAIRS = st.builds(
    Pair,
    before=TEXTS,
    after=TEXTS,
    instruction=TEXTS,
    more=st.dictionaries(st.sampled_from(["source", "licence", "n"]), TEXTS | st.integers()),
)


@given(pairs=st.lists(PAIRS), suffix=st.sampled_from(SUFFIXES))
def test_pairs_are_read_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[Pair], suffix: str
) -> None:
    path = tmp_path_factory.mktemp("pairs") / f"pairs.jsonl{suffix}"
    assert write_pairs(path, pairs) == len(pairs)
    assert list(read_pairs(path)) == pairs
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_several_files_and_folders_are_read_in_order(tmp_path: Path) -> None:
    for name in ("b", "a"):
        write_pairs(tmp_path / "in" / f"{name}.jsonl", [Pair(before=name, after="")])
    (tmp_path / "in" / "README.md").write_text("What these are.")
    (tmp_path / "named").write_text('\n{"before": "c", "after": "", "instruction": null}\n\n')
    found = [pair.before for pair in read_pairs([tmp_path / "in", str(tmp_path / "named")])]
    assert found == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (b'{"before": "a"}', "Line 2 of .*'after' is missing; it must be a string"),
        (b'{"before": 1, "after": ""}', "Line 2 of .*'before' is a int; it must be a string"),
        (b'{"before": "a", "after": "", "instruction": null}', None),
        (b'{"before": "a", "after": "", "instruction": []}', "'instruction' is a list"),
        (b'{"before": "a", ', "Line 2 of .* is not JSON"),
        (b'["a", "b"]', "Line 2 of .* must be a JSON object"),
        (b'{"before": "\xff", "after": ""}', "Line 2 of .* is not UTF-8"),
        (b'{"before": "a", "after": "", "more": "\\ud800"}', "Line 2 of .* is not UTF-8"),
    ],
)
def test_a_bad_line_is_refused_by_its_number(
    tmp_path: Path, line: bytes, sentence: str | None
) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"before": "a", "after": "b"}\n' + line + b"\n")
    if sentence is None:
        assert len(list(read_pairs(path))) == 2
        return
    pairs = read_pairs(path)
    assert next(pairs) == Pair(before="a", after="b")
    with pytest.raises(DataError, match=sentence):
        next(pairs)


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl.xz"
    write_pairs(path, [Pair(before=str(n), after="") for n in range(1000)])
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match=r"pairs\.jsonl\.xz' is damaged"):
        list(read_pairs(path))


def test_a_source_without_pairs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("Nothing.")
    with pytest.raises(DataError, match=r"No pairs at .* folder of such files"):
        list(read_pairs(tmp_path))
    with pytest.raises(DataError, match="nothing to read at 'none'"):
        list(read_pairs("none"))


def test_a_file_that_exists_is_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text("mine")
    with pytest.raises(ConfigError, match="exists already"):
        write_pairs(path, [])
    assert path.read_text() == "mine"


def test_pairs_that_fail_on_the_way_leave_no_file(tmp_path: Path) -> None:
    def failing() -> object:
        yield Pair(before="", after="")
        raise DataError("enough")

    with pytest.raises(DataError, match="enough"):
        write_pairs(tmp_path / "pairs.jsonl", failing())  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5])
def test_unchanged_pairs_are_the_share_that_was_asked(share: float) -> None:
    pairs = [Pair(before="a", after=str(n), instruction="i") for n in range(400)]
    found = list(with_unchanged(pairs, share, seed=3))
    assert [pair for pair in found if not pair.is_unchanged] == pairs
    extra = [pair for pair in found if pair.is_unchanged]
    assert abs(len(extra) / len(found) - share) < 0.002
    assert all(pair.instruction == "i" for pair in extra)
    assert list(with_unchanged(pairs, share, seed=3)) == found
    assert share in (0.0, 0.5) or list(with_unchanged(pairs, share, seed=4)) != found
    with pytest.raises(ConfigError, match=r"must be 0 to 0\.5"):
        list(with_unchanged(pairs, 0.6, seed=0))


def test_a_text_that_is_changed_further_does_not_count_as_finished() -> None:
    pairs = [Pair(before=b, after=a) for b, a in ["ab", "bc", "xc", "yz"]]
    found = list(with_unchanged(pairs, 0.5, seed=0))
    assert "".join(pair.before + pair.after for pair in found) == "abbcxcccyzzz"


@given(
    old=st.lists(st.text("abc ", max_size=6), max_size=5),
    new=st.lists(st.text("abc ", max_size=6), max_size=5),
    least=st.sampled_from([0.3, 0.5, 1.0]),
)
def test_alignment_is_the_best_of_all_that_do_not_cross(
    old: list[str], new: list[str], least: float
) -> None:
    def every(m: int, n: int) -> Iterator[list[tuple[int, int]]]:
        yield []
        for i in range(m, len(old)):
            for j in range(n, len(new)):
                if similarity(old[i], new[j]) >= least:
                    yield from ([(i, j), *rest] for rest in every(i + 1, j + 1))

    def total(met: list[tuple[int, int]]) -> float:
        return sum(similarity(old[i], new[j]) for i, j in met)

    found = aligned(old, new, least)
    assert found in list(every(0, 0))
    assert total(found) == pytest.approx(max(map(total, every(0, 0))))
