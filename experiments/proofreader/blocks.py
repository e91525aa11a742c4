"""A rival: the untrained base writes search-and-replace blocks, as coding agents do.

The model sees three worked examples and the text. Each block names words of the text and what
replaces them. A block whose words are not in the text exactly once cannot be applied: it is left
out.
"""

import re
from pathlib import Path

import torch
from examples import Edit
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

ASKED = (
    "Correct the mistakes in spelling, grammar and punctuation. Change nothing else. Answer with a"
    " search-and-replace block for each mistake, or with NONE if there is none."
)
BLOCK = "<<<<<<< SEARCH\n{}\n=======\n{}\n>>>>>>> REPLACE"
EXAMPLES = (
    (
        "Yesterday he go to the libary with his sister.",
        (("he go to", "he went to"), ("the libary with", "the library with")),
    ),
    ("The report is ready, and I have sent it to you.", ()),
    ("I am interesting in this job", (("am interesting in", "am interested in"),)),
)
PATTERN = re.compile(re.escape(BLOCK).replace(r"\{\}", "(.*?)"), re.DOTALL)
MOST_TOKENS = 120


class Blocks:
    """A proofreader that applies the blocks that a chat model writes."""

    def __init__(self, base: Path) -> None:
        self.model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
        tokenizer = str(base / "tokenizer.json")
        self.tokenizer = PreTrainedTokenizerFast(tokenizer_file=tokenizer)
        self.end = self.tokenizer.convert_tokens_to_ids("<|im_end|>")

    def __call__(self, text: str) -> list[Edit]:
        """Return the edits of the blocks that can be applied."""
        return [
            Edit(text.index(old), text.index(old) + len(old), new)
            for old, new in PATTERN.findall(self.answer(text))
            if old != new and old and text.count(old) == 1
        ]

    @torch.inference_mode()
    def answer(self, text: str) -> str:
        """Return what the model answers."""
        shown = [("system", ASKED)]
        for draft, blocks in EXAMPLES:
            shown += [("user", draft), ("assistant", answered(blocks))]
        turns = "".join(f"<|im_start|>{who}\n{said}<|im_end|>\n" for who, said in shown)
        prompt = f"{turns}<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"
        ids = torch.tensor([self.tokenizer.encode(prompt)])
        written = self.model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=MOST_TOKENS,
            eos_token_id=self.end,
            pad_token_id=self.end,
        )
        return self.tokenizer.decode(written[0, ids.shape[1] :], skip_special_tokens=True)


def answered(blocks: tuple[tuple[str, str], ...]) -> str:
    """Return an answer with some blocks.

    >>> print(answered((("a libary", "a library"),)))
    <<<<<<< SEARCH
    a libary
    =======
    a library
    >>>>>>> REPLACE
    """
    return "\n".join(BLOCK.format(old, new) for old, new in blocks) or "NONE"
