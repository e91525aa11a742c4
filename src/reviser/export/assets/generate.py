"""Let a model write by editing, with Transformers alone.

    model.generate(**inputs, custom_generate=NAME, trust_remote_code=True)

`reviser push` made this file, and VOCAB is the model's action_vocab.json. `generate` itself runs
the model: a processor allows only valid actions, and what comes out is a list of actions. They are
applied to a text, and the tokens of that text are returned.
"""

import torch
from transformers import LogitsProcessor, LogitsProcessorList

VOCAB = {}
DELTAS = [sign << power for power in range(VOCAB["max_move"].bit_length()) for sign in (1, -1)]


class Canvas:
    """A text as tokens, with a cursor between them and marks to go back to."""

    def __init__(self, prompt):
        self.tokens, self.cursor = list(prompt), len(prompt)
        self.start = len(prompt)  # the cursor stays after the prompt
        self.marks = []  # from left to right
        self.is_finished = False

    def apply(self, action):
        """Apply an action."""
        move = action - VOCAB["first_move"]
        if self.is_finished or action in (VOCAB.get("begin"), VOCAB.get("delimiter")):
            return
        if action == VOCAB["stop"]:
            self.is_finished = True
        elif action == VOCAB.get("mark"):
            self.marks = sorted([*self.marks, self.cursor])
        elif action == VOCAB.get("back"):
            self.cursor, *self.marks = self.marks
        elif 0 <= move < len(DELTAS):
            self.cursor += DELTAS[move]
        else:
            self.tokens.insert(self.cursor, action)
            self.marks = [mark + (mark > self.cursor) for mark in self.marks]
            self.cursor += 1

    def forbid(self, scores):
        """Set the scores of invalid actions to minus infinity."""
        for number, delta in enumerate(DELTAS):
            if not self.start <= self.cursor + delta <= len(self.tokens):
                scores[VOCAB["first_move"] + number] = -torch.inf
        if VOCAB.get("mark") is not None:
            if self.cursor in self.marks:
                scores[VOCAB["mark"]] = -torch.inf
            if not self.marks:
                scores[VOCAB["back"]] = -torch.inf


class ValidActions(LogitsProcessor):
    """Follow each row's text and allow only the actions that are valid there."""

    def __init__(self, prompts, read):
        self.prompts, self.read, self.canvases = prompts, read, []

    def __call__(self, input_ids, scores):
        """Return the scores with invalid actions at minus infinity."""
        if not self.canvases:  # now it is known how often each prompt is continued
            times = len(input_ids) // len(self.prompts)
            self.canvases = [Canvas(prompt) for prompt in self.prompts for _ in range(times)]
        scores = scores.clone()
        scores[:, never_chosen(scores.shape[1])] = -torch.inf
        for canvas, ids, row in zip(self.canvases, input_ids[:, self.read :], scores, strict=True):
            for action in ids.tolist():
                canvas.apply(action)
            if not canvas.is_finished:
                canvas.forbid(row)
        self.read = input_ids.shape[1]
        return scores


def never_chosen(rows):
    """Return the ids that are no actions: reserved ones, begin, delimiter and banned tokens."""
    names = ("stop", "mark", "back")
    actions = {VOCAB[name] for name in names if VOCAB.get(name) is not None}
    actions |= {VOCAB["first_move"] + number for number in range(len(DELTAS))}
    actions |= set(range(VOCAB["tokens"])) - set(VOCAB["never_insert"])
    actions -= {VOCAB.get("begin"), VOCAB.get("delimiter")}
    return [action for action in range(rows) if action not in actions]


def generate(
    model, inputs=None, input_ids=None, attention_mask=None, return_actions=False, **settings
):
    """Continue prompts by editing; return the token ids of the texts, prompts included.

    Settings are those of `generate`, and `max_new_tokens` counts actions. With `return_actions`,
    return the action ids of each row instead.
    """
    if settings.get("num_beams", 1) not in (None, 1):
        raise ValueError("Beams are not supported: num_beams must be 1.")
    input_ids = inputs if input_ids is None else input_ids
    if attention_mask is None:
        attention_mask = torch.ones_like(input_ids)
    begin, delimiter = VOCAB.get("begin"), VOCAB.get("delimiter")
    rows = zip(input_ids, attention_mask, strict=True)
    prompts = [ids[mask.bool()].tolist() for ids, mask in rows]
    prompts = [prompt[1:] if prompt[:1] == [begin] else prompt for prompt in prompts]
    histories = [
        [id_ for id_ in (begin, *prompt, delimiter) if id_ is not None] for prompt in prompts
    ]
    size, pad = max(map(len, histories)), VOCAB["stop"]
    padded = [[pad] * (size - len(history)) + history for history in histories]
    mask = [[0] * (size - len(history)) + [1] * len(history) for history in histories]
    valid = ValidActions(prompts, size)
    settings["logits_processor"] = LogitsProcessorList(
        [valid, *(settings.get("logits_processor") or [])]
    )
    # Of the class: `model.generate` may be this function.
    written = type(model).generate(
        model,
        torch.tensor(padded, device=input_ids.device),
        attention_mask=torch.tensor(mask, device=input_ids.device),
        **settings | {"eos_token_id": VOCAB["stop"], "pad_token_id": pad},
        return_dict_in_generate=False,
    )[:, size:]
    if return_actions:
        return written
    times = len(written) // len(prompts)
    canvases = [Canvas(prompt) for prompt in prompts for _ in range(times)]
    for canvas, actions in zip(canvases, written.tolist(), strict=True):
        for action in actions:
            canvas.apply(action)
    longest = max(len(canvas.tokens) for canvas in canvases)
    texts = [canvas.tokens + [pad] * (longest - len(canvas.tokens)) for canvas in canvases]
    return torch.tensor(texts, device=input_ids.device)
