"""The baseline: it reads a draft and writes the whole text again, with Transformers' own decoding.

    python train.py units base -o rewriting --learns rewriting --longest 400 --language-weight 0
    reviser merge rewriting/adapter --base base -o rewriter

It can guess ahead: n-gram speculation takes what followed the last words in the draft, and one
forward checks ten such tokens. What it writes is the same, up to float differences.
"""

import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from examples import Edit, Layout, hunks_between
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

from reviser.core.actions import ActionVocab
from reviser.core.codec import Codec
from reviser.writing.windows import windows

WINDOW = 160
"""Tokens of the longest draft that the model was trained on; longer ones are cut at sentences."""
PARAGRAPH = re.compile(r"[^\n]+")
"""It was trained on one paragraph at a time."""
SPECULATED = 10


@dataclass
class Cost:
    """What a proofreader has used so far."""

    forwards: int = 0
    ids: int = 0
    """Ids that the model read, padding included."""
    seconds: float = 0.0
    """CPU time."""


@dataclass
class Counted:
    """Counts the forwards of a model and the ids that they read."""

    model: torch.nn.Module
    cost: Cost = field(default_factory=Cost)

    def __post_init__(self) -> None:
        self.model.register_forward_pre_hook(self._count, with_kwargs=True)

    def _count(self, _: Any, args: Any, kwargs: dict[str, Any]) -> None:
        ids = kwargs.get("input_ids", args[0] if args else None)
        self.cost.forwards += 1
        self.cost.ids += 0 if ids is None else ids.numel()


class Rewriter:
    """A proofreader that rewrites; its edits are where the two texts differ."""

    def __init__(self, folder: Path, *, speculates: bool) -> None:
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        self.vocab = ActionVocab.load(folder)
        self.codec = Codec(Tokenizer.from_file(str(folder / "tokenizer.json")))
        self.cost = Counted(self.model).cost
        self.options = {"prompt_lookup_num_tokens": SPECULATED} if speculates else {}

    def __call__(self, text: str) -> list[Edit]:
        """Return the edits that turn a text into what the model writes."""
        began = time.process_time()
        found = []
        for paragraph in PARAGRAPH.finditer(text):
            for _, start, end, _ in windows(self.codec, paragraph.group(), WINDOW, 0):
                at = paragraph.start() + start
                old = self.codec.encode(text[at : at + end - start])
                offsets = (at + self.codec.char_offsets(old)).tolist()
                new = self.rewrite(old)
                for hunk in hunks_between(self.codec, old, new):
                    put = self.codec.decode(list(hunk.tokens))
                    found.append(Edit(offsets[hunk.start], offsets[hunk.end], put))
        self.cost.seconds += time.process_time() - began
        return found

    @torch.inference_mode()
    def rewrite(self, draft: list[int]) -> list[int]:
        """Return the tokens that the model writes for a draft."""
        vocab = self.vocab
        shown = torch.tensor([Layout().shown(vocab, draft)])
        written = self.model.generate(
            shown,
            attention_mask=torch.ones_like(shown),
            do_sample=False,
            max_new_tokens=2 * len(draft) + 16,
            eos_token_id=vocab.stop,
            pad_token_id=vocab.stop,
            suppress_tokens=[n for n in range(vocab.tokens, vocab.size) if n != vocab.stop],
            **self.options,
        )
        return [each for each in written[0, shown.shape[1] :].tolist() if each != vocab.stop]
