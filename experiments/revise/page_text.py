"""The prose of the page on editing; braces are filled in by `report.py`."""

INTRODUCTION = """\
# Editing: results

`python -m experiments.revise.report` writes this page from the files in `experiments/revise/results`. [Revise a draft](guides/revise.md) says how to train and use an editor.

The page compares an editor with a baseline that rewrites the whole text. Both come from the same base and the same pairs and read the same number of ids in training. The base is the left-to-right story model of [the results page](results.md) without its actions ({parameters:.1f} million parameters). The pairs are pieces of stories of one to four sentences, sampled from stories15M, with mistakes added by `reviser data corrupt` of version 0.2.0 (six per hundred words, three pieces in ten without any). Both read {ids:.1f} million ids in training ({editor_pairs:,} pairs and {rewriter_pairs:,}: a rewriter reads each text twice), in float32 on one core each. Decoding is greedy. The editor moves by searches and was trained to predict edit probabilities (`policy: {{kind: edits, address: search, edit_probabilities: true}}`): it reads each draft first and edits only words with a predicted edit probability of at least {probability:.0%}. That reading counts as one step for each window.
"""

ARMS = """\
## How it is trained

Editors of the same base and pairs on the same {pairs:,} pieces, by how they move (by distance, by search, or by whichever is shorter: "both") and by what else they learn: to rewrite a share of the pairs, or to predict, at each token that they read, which edit the text before it needs. "Read first" uses these predictions: all other words are locked.
"""

QUALITY = """\
## Quality, locality and steps

{pairs:,} held-out pieces; no story in them was used in training. Edits are counted in words: the same position and the same correction. Locality is the share of the bytes outside the reference's changes that are unchanged. Steps are ids chosen. [..] is a 95 % interval over pieces and does not cover other seeds.
"""

PARTS = """\
Where edits are lost: of the wanted changes, the share made at the right position; of those, the share with the right words; of the changes made, the share at a position where none was wanted; and the share of the correct pieces that are left alone.
"""

COST = """\
## What it costs

Drafts of stories with a known number of mistakes, one at a time; systems take turns on each draft. Both use windows of {window} tokens, the editor with {context} more on either side. Ratios are the editor's to the rewriter's: the median over drafts and, in parentheses, the smallest and the largest. Seconds are those of the Transformers engine. Hardly any draft became exactly the clean text, so the table compares the cost of trying.
"""

BLOCKS = """\
The baseline "blocks" writes search-and-replace blocks: for each change the fewest whole words that occur only once in the draft, then their replacement. It read {pairs:,} pairs in training. An output is malformed if it has a block that cannot be applied: the words are not in the draft, occur more than once, overlap another block's, or the format is broken. Such blocks are skipped and the others applied.
"""

IDEAL = """\
## What it would cost without mistakes

Counted, not run: an editor that takes the shortest revision of each draft, and a rewriter that writes the clean text, with vLLM's n-gram speculation (2 to 4 tokens looked up, 16 guessed) and without. Each reads the draft as a whole. The shortest revision takes {ids} ids per mistake; [..] is a 95 % interval over texts. Medians over drafts:
"""

PRECISION = """\
## Precision

The smallest edit probability at which the editor changes a word, and the quality of its changes, on {pairs} other held-out pieces. `revise(precision=...)` uses the smallest one that reached that precision here with thirty changes or more, from `calibration` in the model folder's `editing.json`.
"""

LEARNED = """\
## What was learned, and what is missing

- **Reading first is what makes the editor work.** Trained only on its actions, the editor found {plain[parts][place_found]:.0%} of the positions and was no better than leaving the text alone: it decides two or three times per pair, each time over the whole draft, and has a loss on a seventh of the ids it reads. Trained to predict edit probabilities as well, it has a training signal at every token, as the rewriter has. It then finds {probabilities[parts][place_found]:.0%} of them, but makes more than half of its changes elsewhere. So edit probabilities are read first, and all other words are locked ([figures](#how-it-is-trained)).
- **Against the rewriter, at one budget:** as precise, half the recall, a sixth of the steps at the median piece, less than a seventh of the damage: {damage[0]:.1%} of the bytes that should stay are changed, and {damage[1]:.1%}. GLEU is {lower} lower. The editor loses more by position than by content: it makes {editor[parts][place_found]:.0%} of the wanted changes at the right position ({rewriter[parts][place_found]:.0%}), with the right words in {editor[parts][content_right_there]:.0%} of them ({rewriter[parts][content_right_there]:.0%}).
- **Search-and-replace blocks** by a baseline of the same budget: {blocks[malformed][value]:.1%} of the outputs have a block that cannot be applied, mostly because the words are not in the draft.
- **You can ask for precision.** The edit probability controls it: precision rises from {curve[0][1]:.2f} to {curve[1][1]:.2f} as the threshold rises from {curve[0][0]} to {curve[1][0]}. A bias against moves, used before, did not: it added needless changes, not right ones.
- **Against n-gram speculation the editor's steps are few only where mistakes are rare.** Guessing that the text continues like the draft gives about fifteen tokens per forward pass. A perfect rewriter with it takes about as many passes as a perfect editor takes ids from one mistake in fifty tokens on, and fewer beyond; without speculation, rewriting is cheaper from one mistake in five on. At 1,000 tokens with up to 5 mistakes the editor would take {passes[editor][1]:.0f} steps or fewer, and the rewriter {passes[n-gram][0]:.0f} to {passes[n-gram][1]:.0f}.
- **A router between revising and rewriting is not needed** at these numbers of mistakes: for {fewer} of {drafts} drafts below, revising took fewer steps, and rewriting all of them took {more:.0f} times as many.
- **Targets:** GLEU at least the rewriter's: missed by {missed:.3f}. At least 99 % of the text untouched: met, {editor[locality][value]:.1%}. At most 0.2 of the rewriter's steps at the median draft: met, {editor[median_steps]:.0f} to {rewriter[median_steps]:.0f}. Faster than n-gram speculation at 1,000 tokens: not measured in seconds. All of this is on stories, with one seed, one budget, three drafts per size, and seconds taken while a training run used the other core.
"""
