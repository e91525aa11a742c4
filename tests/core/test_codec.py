"""The codec: text to tokens and back, and text edits that an editor can apply blindly."""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from tokenizers.processors import TemplateProcessing

from reviser.core.actions import Action, ActionVocab, Kind
from reviser.core.canvas import Canvas, Edit
from reviser.core.codec import UNITS, Codec, TextEdit
from reviser.errors import ConfigError, VocabError
from support import small_tokenizers
from support.editors import Editor, Reader
from support.small_tokenizers import END_OF_TEXT, SPACE
from support.strategies import seeds

ACTIONS = 60  # of a walk, each of one id or several

BYTES = Reader(small_tokenizers.byte_level())
LLAMA = Reader(small_tokenizers.byte_fallback())
GEMMA = Reader(small_tokenizers.byte_fallback(strip=False))
META = Reader(small_tokenizers.metaspace())
READERS = {"byte level": BYTES, "llama": LLAMA, "gemma": GEMMA, "metaspace": META}

every_reader = pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
some_texts = st.text() | st.lists(st.sampled_from("a .é€😀👩\u200d🚀\u0301你\n\ufffd")).map("".join)


def own_decode(tokenizer: Tokenizer, tokens: Sequence[int]) -> str:
    return tokenizer.decode(list(tokens), skip_special_tokens=False)


def byte_tokens(reader: Reader, data: bytes) -> list[int]:
    """Return one token for every byte, whatever merges there are."""
    return [next(i for i in reader.insertable if reader.bytes_of[i] == bytes([b])) for b in data]


def insert(token: int) -> Action:
    return Action(Kind.INSERT, token)


def move(delta: int) -> Action:
    return Action(Kind.MOVE, delta)


# -- text to tokens and back ----------------------------------------------------------------------


@pytest.mark.parametrize("reader", [BYTES, LLAMA, GEMMA])
@given(parts=st.lists(some_texts | st.sampled_from([" ", "  sat", ". ", "\n", "the"]), min_size=1))
def test_parts_are_encoded_to_exactly_their_bytes(reader: Reader, parts: list[str]) -> None:
    encoded = reader.codec.encode_parts(parts)
    for n, (part, tokens) in enumerate(zip(parts, encoded, strict=True)):
        data = b"".join(reader.bytes_of[token] for token in tokens)
        hidden = b" " if n == 0 and reader is LLAMA else b""
        assert data == hidden + part.encode()
    assert reader.codec.decode(token for tokens in encoded for token in tokens) == "".join(parts)


def test_a_part_keeps_the_tokens_it_has_inside_a_text() -> None:
    first, second = BYTES.codec.encode_parts(["The cat", " sat on"])
    assert first + second == BYTES.codec.encode("The cat sat on")
    assert LLAMA.codec.encode_parts(["The", " cat"])[1] == LLAMA.codec.encode("cat")


def test_a_part_that_cannot_be_written_exactly_is_refused() -> None:
    with pytest.raises(VocabError, match="cannot encode '\u0e51' byte for byte"):
        META.codec.encode_parts(["The", "\u0e51"])


@pytest.mark.parametrize("reader", [BYTES, LLAMA, GEMMA], ids=["byte level", "llama", "gemma"])
@given(text=some_texts)
def test_text_comes_back_through_bytes(reader: Reader, text: str) -> None:
    if reader is not BYTES:
        text = text.replace(SPACE, " ")  # the one character that such tokenizers cannot tell
    assert reader.codec.decode(reader.codec.encode(text)) == text


def test_text_comes_back_through_metaspace_if_it_holds_known_letters_only() -> None:
    for text in ("The cat sat on the mat. The end.", "déjà vu 👩\u200d🚀 你好", ""):
        assert META.codec.decode(META.codec.encode(text)) == text


@pytest.mark.parametrize("reader", [BYTES, META], ids=["byte level", "metaspace"])
@given(seed=seeds)
def test_any_tokens_are_decoded_as_their_tokenizer_does(reader: Reader, seed: int) -> None:
    rng = Random(seed)
    tokens = [reader.token(rng) for _ in range(rng.randint(0, 30))]
    controls = rng.choices(range(reader.vocab.size), k=rng.randint(0, 3))
    tokens = rng.sample(tokens + controls, len(tokens) + len(controls))
    assert reader.codec.decode(tokens) == own_decode(reader.tokenizer, tokens)


@pytest.mark.parametrize("reader", [LLAMA, GEMMA], ids=["llama", "gemma"])
@given(seed=seeds, text=some_texts)
def test_whole_characters_are_decoded_as_their_tokenizer_does(
    reader: Reader, seed: int, text: str
) -> None:
    rng = Random(seed)
    parts = [byte_tokens(reader, char.encode()) for char in text]
    parts += [[i] for i in range(reader.vocab.size) if not is_part(reader.codec.token_bytes[i])]
    tokens = [token for part in rng.choices(parts, k=20) for token in part]
    assert reader.codec.decode(tokens) == own_decode(reader.tokenizer, tokens)


@pytest.mark.parametrize("reader", [LLAMA, GEMMA], ids=["llama", "gemma"])
@given(st.binary(max_size=12))
def test_broken_bytes_spoil_their_neighbours_at_most(reader: Reader, data: bytes) -> None:
    # The tokenizers' own decoder gives up a whole run of byte tokens for one that is broken, so
    # that a character far away would change.
    shown = reader.codec.decode([*reader.codec.encode("a"), *byte_tokens(reader, data)])
    assert shown == "a" + data.decode("utf-8", "replace")
    assert BYTES.codec.decode(byte_tokens(BYTES, data)) == data.decode("utf-8", "replace")


def is_part(data: bytes) -> bool:
    """Return whether bytes are not whole characters."""
    return "\ufffd" in data.decode("utf-8", "replace")


@every_reader
def test_the_bytes_of_every_token_are_known(reader: Reader) -> None:
    table = reader.codec.token_bytes
    assert len(table) == reader.vocab.size
    assert {i: table[i] for i in reader.insertable} == reader.bytes_of
    for name, i in reader.vocab.control_tokens.items():
        assert table[i] == name.encode()


def test_an_id_without_a_token_has_no_bytes() -> None:
    tokenizer = Tokenizer(models.BPE({"a": 0, "b": 3}, []))
    tokenizer.decoder = decoders.ByteLevel()
    codec = Codec(tokenizer)
    assert codec.token_bytes == [b"a", b"", b"", b"b"]
    assert codec.decode([3, 1, 0]) == own_decode(tokenizer, [3, 1, 0]) == "ba"
    stream = codec.stream([1, 0])
    assert stream.feed(Edit(1, (), (2, 3, 1), 1, 4)) == TextEdit(0, "", "b", 1)
    assert stream.text == "ba"


def test_a_piece_outside_the_byte_alphabet_stands_for_itself() -> None:
    tokenizer = Tokenizer(models.BPE({"\u0120a": 0, "two words": 1, SPACE: 2}, []))
    tokenizer.decoder = decoders.ByteLevel()
    assert Codec(tokenizer).decode([0, 1, 2]) == own_decode(tokenizer, [0, 1, 2])


def test_an_added_token_of_spaces_reads_as_spaces() -> None:
    tokenizer = small_tokenizers.byte_fallback(strip=False)  # Gemma has such tokens
    tokenizer.add_tokens([AddedToken(SPACE * 2, normalized=False)])
    codec = Codec(tokenizer)
    tokens = [*codec.encode("a"), tokenizer.token_to_id(SPACE * 2), *codec.encode("b")]
    assert codec.decode(tokens) == own_decode(tokenizer, tokens) == "a  b"


def test_an_added_token_of_a_byte_level_tokenizer_reads_as_it_is_written() -> None:
    tokenizer = small_tokenizers.byte_level()
    names = ["naïve", "two words"]
    tokenizer.add_tokens(names)
    codec = Codec(tokenizer)
    for name in names:
        assert codec.encode(name) == [tokenizer.token_to_id(name)]
        assert codec.decode(codec.encode(f"so {name}.")) == f"so {name}."


BUILDERS = [
    small_tokenizers.byte_level,
    small_tokenizers.byte_fallback,
    small_tokenizers.metaspace,
    small_tokenizers.unigram,
]


@pytest.mark.parametrize("build", BUILDERS)
def test_a_fingerprint_is_the_same_before_and_after_actions_were_added(
    build: Callable[[], Tokenizer],
) -> None:
    tokenizer = build()
    before = Codec(tokenizer).fingerprint
    ActionVocab.from_tokenizer(tokenizer)
    tokenizer.enable_truncation(5)
    tokenizer.enable_padding()
    assert Codec(tokenizer).fingerprint == before


def test_different_tokenizers_have_different_fingerprints() -> None:
    tokenizers = [build() for build in BUILDERS]
    tokenizers += [small_tokenizers.byte_fallback(strip=False), small_tokenizers.unigram(knows="x")]
    other_words, with_word, bare = (small_tokenizers.byte_level() for _ in range(3))
    other_words.pre_tokenizer = pre_tokenizers.ByteLevel(use_regex=False)
    with_word.add_tokens(["a word"])  # not special, so text is read as it
    bare.pre_tokenizer = None
    codecs = [Codec(tokenizer) for tokenizer in [*tokenizers, other_words, with_word, bare]]
    assert len({codec.fingerprint for codec in codecs}) == len(codecs)


@every_reader
@given(texts=st.lists(some_texts))
def test_a_batch_is_encoded_as_its_texts_are(reader: Reader, texts: list[str]) -> None:
    assert reader.codec.encode_batch(texts) == [reader.codec.encode(text) for text in texts]


# -- control tokens -------------------------------------------------------------------------------


@every_reader
@given(data=st.data())
def test_text_never_becomes_a_control_token(reader: Reader, data: st.DataObject) -> None:
    names = [*reader.vocab.control_tokens, END_OF_TEXT, *small_tokenizers.SPECIAL]
    pieces = data.draw(st.lists(st.sampled_from(names) | st.text(max_size=3), min_size=1))
    tokens = reader.codec.encode("".join(pieces))
    unknown = {reader.tokenizer.token_to_id("<unk>")}  # what has no token and no bytes is unknown
    assert {*tokens} - unknown <= {*reader.insertable}


@pytest.mark.parametrize("text", ["<|stop|>", END_OF_TEXT, "a <|move-8|><|endoftext|> b"])
def test_the_name_of_a_control_token_in_a_text_is_letters(text: str) -> None:
    tokens = BYTES.codec.encode(text)
    assert tokens != BYTES.tokenizer.encode(text).ids  # which reads it as the control token
    assert BYTES.codec.decode(tokens) == text


@pytest.mark.parametrize("text", ["</s>", "the <s> </s>", "</s></s>"])
def test_text_never_matches_a_special_piece_of_a_unigram_model(text: str) -> None:
    tokenizer = small_tokenizers.unigram()
    codec = Codec(tokenizer)
    special = {tokenizer.token_to_id(piece) for piece in small_tokenizers.SPECIAL}
    assert special.isdisjoint(codec.encode(text))
    assert codec.decode(codec.encode(text)) == text
    assert codec.encode("the <= s") == tokenizer.encode("the <= s").ids


@pytest.mark.parametrize("text", ["</s>", "the <s> </s>"])
def test_nor_if_the_unigram_model_does_not_know_its_letters(text: str) -> None:
    tokenizer = small_tokenizers.unigram(knows="")  # T5, for one, has no <
    special = {tokenizer.token_to_id(name) for name in ("<s>", "</s>")}
    assert special.isdisjoint(Codec(tokenizer).encode(text))
    vocab = ActionVocab.from_tokenizer(tokenizer)
    assert max(Codec(tokenizer).encode("a<|stop|>")) < vocab.tokens


def test_a_unigram_model_without_special_tokens_is_read_too() -> None:
    tokenizer = Tokenizer(models.Unigram([("<", -1.0), ("s>", -1.0), (SPACE, -1.0)], 0, False))
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="never")
    assert Codec(tokenizer).encode("<s>") == [0, 1]


# -- from a tokenizer -----------------------------------------------------------------------------


def test_padding_truncation_and_templates_do_not_reach_the_tokens_and_remain_as_they_are() -> None:
    tokenizer, text = small_tokenizers.byte_level(), f"The cat sat{END_OF_TEXT}"
    plain = Codec(tokenizer).encode(text)
    tokenizer.enable_padding(length=50)
    tokenizer.enable_truncation(2)
    end = (END_OF_TEXT, tokenizer.token_to_id(END_OF_TEXT))
    tokenizer.post_processor = TemplateProcessing(f"{END_OF_TEXT} $A", special_tokens=[end])
    before = tokenizer.to_str()
    codec = Codec(tokenizer)
    assert codec.encode(text) == plain
    assert codec.encode_batch([text]) == [plain]
    assert end[1] not in plain
    assert tokenizer.to_str() == before
    assert tokenizer.encode(END_OF_TEXT).ids[:2] == [end[1]] * 2  # which reads it as special


def test_a_codec_is_read_from_a_model_folder(tmp_path: Path) -> None:
    with pytest.raises(VocabError, match=r"There is no tokenizer\.json in "):
        Codec.load(tmp_path)
    BYTES.tokenizer.save(str(tmp_path / "tokenizer.json"))
    for folder in (tmp_path, str(tmp_path)):
        assert Codec.load(folder).encode("The <|stop|>") == BYTES.codec.encode("The <|stop|>")


def test_an_unknown_unit_and_half_of_a_surrogate_pair_are_refused() -> None:
    with pytest.raises(ConfigError, match="unit is 'utf-16'; use 'char' or 'utf16'"):
        BYTES.codec.stream(unit="utf-16")  # type: ignore[arg-type]
    with pytest.raises(VocabError, match="half of a surrogate pair"):
        BYTES.codec.encode("a\ud83d")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not JSON"),
        (b'{"model": ', "is not JSON"),
        (b'{"model": ' + b"[" * 100_000, "is not JSON"),
        (b"\xff", "is not UTF-8"),
        (b"[]", "must hold a JSON object"),
        (b"{}", "Cannot read"),
        (b'{"model": 3, "added_tokens": 3}', "Cannot read"),
        (b'{"model": {"vocab": {"a": 4000000000}}}', "has an id that is not a whole number"),
        (b'{"model": {"vocab": {"a": 0.5}}}', "has an id that is not a whole number"),
        (b'{"model": {}, "added_tokens": [{"id": -1}]}', "has an id that is not a whole number"),
    ],
)
def test_a_tokenizer_that_is_damaged_is_refused(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(VocabError, match=message) as caught:
        Codec.load(tmp_path)
    assert repr(str(path)) in str(caught.value)


def test_a_tokenizer_without_tokens_is_refused(tmp_path: Path) -> None:
    empty = Tokenizer(models.BPE())
    empty.decoder = decoders.ByteLevel()
    empty.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(VocabError, match="Cannot use the tokenizer in"):
        Codec.load(tmp_path)


@pytest.mark.parametrize(
    ("decoder", "kinds"),
    [
        (decoders.WordPiece(), "['WordPiece']"),
        (decoders.Sequence([decoders.Replace("_", " "), decoders.Fuse()]), "['Fuse', 'Replace']"),
        (None, "[]"),
    ],
)
def test_a_tokenizer_whose_bytes_are_not_known_is_refused(
    decoder: decoders.Decoder | None, kinds: str, tmp_path: Path
) -> None:
    tokenizer = Tokenizer(models.BPE({"a": 0}, []))
    if decoder is not None:
        tokenizer.decoder = decoder
    with pytest.raises(VocabError, match=re.escape(f"(decoder: {kinds}). Use a byte-level BPE")):
        Codec(tokenizer)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(VocabError, match=re.escape(f"(decoder: {kinds}). Use a byte-level BPE")):
        Codec.load(tmp_path)


def test_a_first_space_is_hidden_where_the_decoder_hides_it() -> None:
    hiding = {name for name, reader in READERS.items() if reader.codec.hides_first_space}
    assert hiding == {"llama", "metaspace"}
    for scheme, hides in (("always", True), ("first", True), ("never", False)):
        tokenizer = small_tokenizers.metaspace()
        tokenizer.decoder = decoders.Metaspace(prepend_scheme=scheme)
        codec, the = Codec(tokenizer), tokenizer.token_to_id(f"{SPACE}the")
        assert codec.hides_first_space is hides
        assert codec.decode([the, the]) == own_decode(tokenizer, [the, the])


# -- text edits -----------------------------------------------------------------------------------


@every_reader
@given(seed=seeds)
def test_an_editor_that_applies_the_text_edits_shows_the_decoded_canvas(
    reader: Reader, seed: int
) -> None:
    rng = Random(seed)
    tokens = [reader.token(rng) for _ in range(rng.randint(0, 12))]
    canvas = Canvas(reader.vocab, tokens, rng.randint(0, len(tokens)))
    editor = Editor(reader, tokens)
    for edit in reader.walk(rng, canvas, ACTIONS):
        editor.follow(edit, canvas)


@every_reader
@given(seed=seeds)
def test_a_stream_that_starts_with_tokens_equals_one_that_was_fed_them(
    reader: Reader, seed: int
) -> None:
    rng = Random(seed)
    tokens = [reader.token(rng) for _ in range(rng.randint(0, 20))]
    canvas = Canvas(reader.vocab)
    started, fed = reader.codec.stream(np.array(tokens, int)), reader.codec.stream()
    for token in tokens:
        fed.feed(canvas.apply(token))
    assert started.text == fed.text == reader.codec.decode(tokens)
    for edit in reader.walk(rng, canvas, 10):
        assert started.feed(edit) == fed.feed(edit)


@every_reader
@given(seed=seeds)
def test_edits_fed_inverted_and_in_reverse_restore_the_text(reader: Reader, seed: int) -> None:
    rng = Random(seed)
    tokens = [reader.token(rng) for _ in range(rng.randint(0, 12))]
    canvas, editor = Canvas(reader.vocab, tokens), Editor(reader, tokens)
    past: list[tuple[Edit, str]] = []
    for edit in reader.walk(rng, canvas, 20):
        past.append((edit, editor.text))
        editor.take(edit)
    for edit, before in reversed(past):
        editor.take(edit.inverse())
        assert editor.text == before


@given(seeds)
def test_whole_characters_are_replaced_by_whole_characters_and_nothing_else(seed: int) -> None:
    rng, decode = Random(seed), BYTES.codec.decode
    whole = [i for i in BYTES.insertable if not is_part(BYTES.bytes_of[i])]
    tokens = rng.choices(whole, k=rng.randint(0, 12))
    canvas, stream = Canvas(BYTES.vocab, tokens), BYTES.codec.stream(tokens)
    for edit in BYTES.walk(rng, canvas, ACTIONS, whole):
        left = canvas.tokens()[: edit.cursor]
        expected = TextEdit(len(decode(left)), "", "", len(decode(left)))
        if edit.changes_text:
            offset = len(decode(canvas.tokens()[: edit.position]))
            change = (decode(edit.removed), decode(edit.inserted))
            expected = TextEdit(offset, *change, len(decode(left)))
        assert stream.feed(edit) == expected


@every_reader
@given(seed=seeds)
def test_inserting_plain_letters_removes_nothing(reader: Reader, seed: int) -> None:
    rng = Random(seed)
    whole = [i for i in reader.insertable if not is_part(reader.bytes_of[i])]
    plain = [i for i in whole if reader.bytes_of[i].isascii()]
    canvas = Canvas(reader.vocab, rng.choices(whole, k=8))
    editor = Editor(reader, canvas.tokens())
    for _ in range(10):
        delta = rng.choice([-1, 1, -4, 4])
        if 0 <= canvas.cursor + delta <= len(canvas):
            editor.take(canvas.apply(reader.vocab.move_id(delta)))
        shown = editor.follow(canvas.apply(rng.choice(plain)), canvas)
        assert shown.removed == ""


def shown_edits(
    reader: Reader, tokens: Sequence[int], *actions: Action, wide: bool = False
) -> list[tuple[int, str, str, int]]:
    """Return the text edits of actions on a canvas with its cursor at the end."""
    canvas, editor = Canvas(reader.vocab, tokens), Editor(reader, tokens)
    edits = [edit for action in actions for edit in canvas.act(action)]
    both = [editor.take(edit) for edit in edits]
    return [(e.offset, e.removed, e.inserted, e.cursor) for e in (pair[wide] for pair in both)]


def test_a_character_written_byte_by_byte_shows_when_it_is_complete() -> None:
    f0, x9f, x98, x80 = byte_tokens(BYTES, "😀".encode())
    there = BYTES.codec.encode("é")
    actions = [insert(f0), insert(x9f), insert(x98), insert(x80), move(-1), move(-4)]
    assert shown_edits(BYTES, there, *actions) == [
        (1, "", "\ufffd", 2),
        (2, "", "", 2),
        (2, "", "", 2),
        (1, "\ufffd", "😀", 2),
        (2, "", "", 2),  # inside the character: after it
        (0, "", "", 0),
    ]
    assert shown_edits(BYTES, there, *actions, wide=True) == [
        (1, "", "\ufffd", 2),
        (2, "", "", 2),
        (2, "", "", 2),
        (1, "\ufffd", "😀", 3),  # two UTF-16 units
        (3, "", "", 3),
        (0, "", "", 0),
    ]


def test_a_text_edit_is_applied_in_its_own_unit() -> None:
    assert TextEdit(1, "a", "bc", 3).apply("😀a!") == "😀bc!"
    assert TextEdit(2, "a", "bc", 4, "utf16").apply("😀a!") == "😀bc!"


def test_a_space_shows_once_it_is_no_longer_first() -> None:
    the = LLAMA.tokenizer.token_to_id(f"{SPACE}the{SPACE}")
    (x,) = byte_tokens(LLAMA, b"x")
    actions = [move(-1), insert(x), Action(Kind.DELETE), insert(the), insert(x), move(-2)]
    assert shown_edits(LLAMA, [the], *actions) == [
        (0, "", "", 0),
        (0, "", "x ", 1),
        (0, "x ", "", 0),
        (0, "", "the  ", 4),
        (4, "", "x", 5),
        (0, "", "", 0),
    ]
    assert shown_edits(LLAMA, [the], move(-1), insert(x), Action(Kind.REPLACE, the)) == [
        (0, "", "", 0),
        (0, "", "x ", 1),
        (1, "", "", 1),
        (0, "x", "the ", 4),  # the space that follows does not change
    ]


# -- units ----------------------------------------------------------------------------------------


def codec_of(pieces: Sequence[str]) -> Codec:
    """Return a byte-level codec whose tokens are the pieces, in order."""
    alphabet = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    written = [alphabet.pre_tokenize_str(piece)[0][0] for piece in pieces]
    tokenizer = Tokenizer(models.BPE({piece: n for n, piece in enumerate(written)}, []))
    tokenizer.decoder = decoders.ByteLevel()
    return Codec(tokenizer)


def test_words_begin_at_white_space_and_sentences_after_an_end() -> None:
    units = {
        "The": "token sentence",  # the first token begins the first sentence
        " cat": "token word",
        "ch": "token",
        " 3.14": "token word",
        "!?": "token",
        " She": "token word sentence",
        " said": "token word",
        ' "Go': "token word",
        '.")': "token",
        "\n": "token word sentence",
        " é": "token word",
        "。": "token",
        "x. \n": "token sentence",
        "Yes": "token sentence",
        "\tno": "token word",
        "]": "token",
        " end.": "token word",
    }
    codec = codec_of([*units])
    tokens = range(len(units))
    expected = [sum(UNITS[unit] for unit in names.split()) for names in units.values()]
    for given_tokens in (tokens, [*tokens], np.array(tokens), np.array(tokens, np.uint16)):
        starts = codec.unit_starts(given_tokens)
        assert starts.tolist() == expected
        assert starts.dtype == np.uint8


def test_a_sentence_ends_in_other_scripts_too() -> None:
    tokens = ["\u96e8", "\u3002", "\u96e8", "\uff01\u300d", "\u96e8", "\uff1f", "\u96e8"]
    tokenizer = Tokenizer(models.BPE({token: n for n, token in enumerate(sorted({*tokens}))}, []))
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="never")
    ids = [tokenizer.token_to_id(token) for token in tokens]
    starts = Codec(tokenizer).unit_starts(ids) & UNITS["sentence"]
    assert np.flatnonzero(starts).tolist() == [0, 2, 4, 6]


def test_a_text_begins_a_sentence_and_no_text_begins_nothing() -> None:
    codec = codec_of(["a", " b"])
    assert codec.unit_starts([]).tolist() == []
    assert codec.unit_starts([0]).tolist() == [UNITS["token"] + UNITS["sentence"]]
    assert codec.unit_starts([1]).tolist() == [sum(UNITS.values())]


@pytest.mark.parametrize("reader", [BYTES, META], ids=["byte level", "metaspace"])
def test_in_a_trained_tokenizer_words_are_separated_by_spaces(reader: Reader) -> None:
    text = "The cat sat on the mat. The dog did not! Did the cat care? The end."
    tokens = reader.codec.encode(text)
    starts = reader.codec.unit_starts(tokens)
    bounds = [0, *np.flatnonzero(starts & UNITS["word"]), len(tokens)]
    words = [reader.codec.token_bytes[t] for t in tokens]
    joined = [b"".join(words[a:b]).decode().strip() for a, b in pairwise(bounds)]
    assert [word for word in joined if word] == text.split()
    assert np.count_nonzero(starts & UNITS["sentence"]) == 4


@pytest.mark.parametrize("reader", [BYTES, LLAMA, GEMMA], ids=["byte level", "llama", "gemma"])
@given(text=some_texts)
def test_char_offsets_count_the_characters_before_each_token_boundary(
    reader: Reader, text: str
) -> None:
    codec = reader.codec
    (tokens,) = codec.encode_parts([text])
    data = [codec.token_bytes[token] for token in tokens]
    hidden = codec.hides_first_space and b"".join(data).startswith(b" ")
    for boundary, offset in enumerate(codec.char_offsets(tokens).tolist()):
        try:
            shown = b"".join(data[:boundary]).decode()
        except UnicodeDecodeError:
            assert offset == -1
        else:
            assert offset == max(0, len(shown) - hidden)
    assert codec.char_offsets(tokens)[-1] == len(text)


def test_the_offset_of_every_boundary_is_the_text_before_it() -> None:
    codec = Codec(small_tokenizers.byte_level())
    tokens = codec.encode("The cat sat, you see.")
    expected = [len(codec.decode(tokens[:n])) for n in range(len(tokens) + 1)]
    stream = codec.stream(tokens)
    for here in (0, 5, len(tokens)):  # wherever the last edit was
        stream.feed(Edit(here, (), (), here, here))
        assert [stream.offset_of(n) for n in range(len(tokens) + 1)] == expected


def test_a_space_has_a_token() -> None:
    codec = Codec(small_tokenizers.byte_level())
    assert codec.space is not None
    assert codec.token_bytes[codec.space] == b" "
