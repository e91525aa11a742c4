"""The codec with released tokenizers and real text, read from the data folder.

That is `../shared/data`, or the folder named by REVISER_DATA.
"""

import lzma
from functools import cache
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from tokenizers import Tokenizer

from reviser.core.canvas import Canvas
from support.editors import Editor, Reader
from support.paths import DATA
from support.strategies import seeds

TOKENIZERS = {"gpt2": "gpt2-tokenizer", "smollm2": "smollm2-135m-instruct"}

every_tokenizer = pytest.mark.parametrize("folder", TOKENIZERS.values(), ids=TOKENIZERS)


def data(name: str) -> Path:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"There is no {name} in the data folder: name it with REVISER_DATA.")
    return path


@cache
def reader_of(folder: str) -> Reader:
    return Reader(Tokenizer.from_file(str(data(f"{folder}/tokenizer.json"))))


@cache
def lines() -> list[str]:
    """Lines of Wikipedia, those with the most characters beyond ASCII first."""
    path = data("wikitext2-test/wiki.test.raw.xz")
    text = lzma.decompress(path.read_bytes()).decode().splitlines()
    return sorted(text, key=lambda line: sum(char > "\x7f" for char in line), reverse=True)


@cache
def parts_of_characters(folder: str) -> list[int]:
    table = reader_of(folder).codec.token_bytes
    return [i for i, token in enumerate(table) if "\ufffd" in token.decode("utf-8", "replace")]


@every_tokenizer
@given(seed=seeds)
def test_any_tokens_are_decoded_as_their_tokenizer_does(folder: str, seed: int) -> None:
    reader, rng = reader_of(folder), Random(seed)
    broken = parts_of_characters(folder)
    assert len(broken) > 128  # bytes alone, and merges that end inside a character
    pools = (broken, range(reader.vocab.size), reader.awkward)
    tokens = [rng.choice(rng.choice(pools)) for _ in range(40)]
    own = reader.tokenizer.decode(tokens, skip_special_tokens=False)
    assert reader.codec.decode(tokens) == own


@every_tokenizer
def test_real_text_is_encoded_as_its_tokenizer_does_and_comes_back(folder: str) -> None:
    reader = reader_of(folder)
    for line in lines():
        tokens = reader.codec.encode(line)
        assert tokens == reader.tokenizer.encode(line, add_special_tokens=False).ids
        assert reader.codec.decode(tokens) == line


@every_tokenizer
def test_a_special_tokens_name_in_a_text_is_letters(folder: str) -> None:
    reader = reader_of(folder)
    for name in (*reader.vocab.control_tokens, "<|endoftext|>", "<|im_start|>", "<file_sep>"):
        text = f"a{name} {name}{name}"
        tokens = reader.codec.encode(text)
        assert {*tokens} <= {*reader.insertable}
        assert reader.codec.decode(tokens) == text


@every_tokenizer
def test_real_text_written_token_by_token_shows_what_is_there_so_far(folder: str) -> None:
    reader = reader_of(folder)
    for line in lines()[:5]:
        canvas, editor = Canvas(reader.vocab), Editor(reader)
        for token in reader.codec.encode(line)[:200]:
            editor.follow(canvas.apply(token), canvas)
        assert line.startswith(editor.text.rstrip("\ufffd"))


@every_tokenizer
@given(seed=seeds)
def test_an_editor_follows_the_edits_of_real_text(folder: str, seed: int) -> None:
    reader, rng = reader_of(folder), Random(seed)
    tokens = reader.codec.encode(rng.choice(lines()[:100]))
    start = rng.randrange(len(tokens))
    tokens = tokens[start : start + 80]
    canvas, editor = Canvas(reader.vocab, tokens, len(tokens) // 2), Editor(reader, tokens)
    for edit in reader.walk(rng, canvas, 10):
        editor.follow(edit, canvas)
