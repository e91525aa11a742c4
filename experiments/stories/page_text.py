"""The prose of the results page; braces are filled in by `report.py`."""

INTRODUCTION = """\
# Results

`python -m experiments.stories.report` writes this page from the files in `experiments/stories/results`. Each file of a run in `full` and `screen` names its arm, its seed, its changes of `recipes/world.yaml` and the commit.

## The corpus

The same model, stories15M, generates the training text and judges the results; below, it is also called the source. An *arm* is one model of the comparison.

- **Size.** {stories} stories, sampled at temperature 1 without truncation: {tokens} of its tokens, {own} of ours. {ended} % of the stories end by themselves, the others where the context of 256 tokens ends.
- **The judge is exact.** Every arm learns the distribution of stories15M, so a text's perplexity under stories15M is measured against the true distribution, as long as the text fits its context. The few longer texts are judged in windows. (Stories were sampled in bf16 and are judged in float32, which differ by {divergence} nats per token.)
- **Lower bound.** Our tokens cost the source {nats} nats each. No score below can be lower.
- **Files**, by SHA-256: {hashes}. These commands sample them:

```sh
python -m experiments.stories.sample_corpus STORIES15M -o WORLD/stories-0.jsonl --batches 395 --share 0/2
python -m experiments.stories.sample_corpus STORIES15M -o WORLD/stories-1.jsonl --batches 364 --share 1/2
python -m experiments.stories.sample_corpus STORIES15M -o WORLD/stories-2.jsonl --batches 411 --share 396/1
```

All arms have the same trunk (GPT-NeoX, six layers of 256, {parameters} parameters), the same byte-level BPE of 4,096 tokens, the same recipe (`recipes/world.yaml`) and the same budget of training FLOPs, so an arm whose policy takes more actions sees less text. Arms differ in their policy, and those with marks have a few more action tokens.

The {runs} runs below took {hours} core-hours of training, one core each of a virtual machine with two (x86-64 with AMX, bfloat16, no GPU); seven runs of closed experiments took another 1.7. The median run trained at {rate} TFLOP/s, {share} % of the {peak} that a core reaches on the trunk's largest product (`python -m experiments.stories.run machine`). The rest goes to small operations, attention and the optimizer.
"""
HEADINGS = {
    "screen": "## Screening: a fifth of the budget, one seed\n\n{ids} each.\n\n",
    "full": "## Full budget\n\n{ids} each.\n\n",
}
TARGET = """\
## The target

The target is a model that revises, with texts as good as those of the left-to-right baseline at equal training FLOPs, at the same price and as varied. **One point was missed**: at the full budget the perplexity (evalPPL) of the Reviser's texts is 1.13 and 1.16 times the baseline's, depending on the seed, and the target was 1.10. Price, revising and variety meet the target. Two seeds were run, not the three that were planned.
"""
COLUMNS = """\
## How to read the tables

The arms:

| name | how it writes |
| --- | --- |
| `append` | the baseline: left to right |
| `paper`, `delete-0.9` | the paper's policy, and one that moves less |
| `spans-N` | spans of about N tokens in random order |
| `late-N` | leaves N sentences out and writes them last |
| `short-1` | leaves out a few words instead of a sentence |
| `-marks` | goes back by marks; the others count tokens |
| `mixed-50` | appends half of the texts, writes the others as `spans-16` |
| `annealed-`, `then-`, `half-` | append at first; late spans come gradually, after 60 %, or between 40 and 60 % of training |

- **Held out**: held-out text under each arm's own policy, in nats per text token. ± is a 95 % interval over texts, or over seeds where a row has several. "Which token" is the text itself, given that a token is inserted. "Order" is the rest: whether to insert, move or stop, and which move. The order tax is the part of it that no model can avoid; the part above it is counting and choosing that this model has not learned.
- **Written**: held-out prompts of 32 tokens, continued at temperature 0.9 with top-k 50. evalPPL is per token of the source. "Revised" is the share of rollouts with a backward move and an insertion at its target. [..] is a 95 % interval over prompts and does not cover other seeds; ± is one over seeds. "vs. baseline" is the ratio to `append` of the same seed. You can [watch rollouts](rollouts.html) of the shipped model. [Evaluate](guides/evaluate.md#measures) explains distinct-2, repetition and MAUVE.
- **Cursor**: the paper's trajectory statistics of these rollouts. "Moves" are shares of all actions, `back` included and `mark` not. Distances and travel are in tokens. The position of an insert goes from 0, the start of the text, to 1.
"""
INFILLING = """\
## Filling a gap

{stories} held-out stories with one to three sentences removed, decoded as above (`python -m experiments.stories.infill WORLD RUN BASELINE --judge STORIES15M`). The Reviser sees both sides and ends by itself, after {actions} actions on average. The baseline continues the left side and is cut after the missing number of sentences. The table has bits per character under the source: of the fill, given the left side, and of the text after it, which is the same for all systems. The last column is what the true sentences cost each model itself, given what it sees and that it inserts. The text after the gap costs {baseline} bits per story more after the Reviser's fill than after the baseline's, and {nothing} more than after no fill (negative is better). The true sentences cost the Reviser {truth} bits more than the baseline.
"""
CHECKS = """\
## Another judge, and real stories

300 held-out prompts each from this corpus ("world" in the table) and from real TinyStories, continued as above and judged by the source and by SmolLM2-135M-Instruct (`python -m experiments.stories.run check RUN --world WORLD --judge STORIES15M --second SMOLLM2 --real tiny_stories.txt.xz`).
"""
DECODING = """\
## Decoding

300 prompts as above, continued with other settings by the model and by its baseline (`python -m experiments.stories.run decode RUN --world WORLD --judge STORIES15M --settings '{"move_bias": 1}'`).
"""
LEARNED = """\
## What was learned, and what failed

- **Random order is what costs the paper's policy most.** `paper` is 3.24 nats per token above `append`: 1.29 are the order itself, which no model can avoid; 1.85 are tokens that are harder to predict out of order; 0.11 are moves that the model has not learned to count or choose. Left to right with one sentence written last (`late-1`), the order costs 0.02.
- **Counting costs next most.** `late-1` should go back to the start of a sentence and reaches one 5 % of the time. Marks, which need no counting, bring its ratio from 1.29 to 1.09 at a fifth of the budget. Moves that count sentences ("hops") also reach a sentence every time: their ratio was 1.032 [0.992, 1.079] at a fifth of the budget and 1.179 [1.153, 1.206] at the full one. They were removed, because the mask then needs the text.
- **The rest is spread over the whole story.** At the full budget, `late-1-marks` is above the baseline in every part of a story: by 0.039 [0.029, 0.050] nats per token before the mark, although the model has seen the same text there as the baseline; by 0.076 [0.065, 0.087] after it, where a sentence is missing; and by 0.150 [0.122, 0.181] in the sentence written last (300 held-out stories). That sentence should be the cheapest, because the model has both sides in view. It hardly matters to the judge: the evalPPL of 292 rollouts is 11.34 [10.85, 11.90], and 11.21 [10.69, 11.78] without those sentences; that of the baseline is 9.97 [9.58, 10.43], and 10.69 [10.26, 11.22] with a random sentence removed. A model of this size has seen 58,000 such sentences, a tenth of its text.
- **Models decode nearly the same mix of actions as their policy**, so a bias has little to correct: 0.007 of the actions are moves in the policy of `late-1-marks` and in its rollouts, 0.131 and 0.140 with `delete-0.9`. `paper` has 0.231 and 0.279, with detours (1.40 actions per token where 1.30 would be enough). A bias towards marks (`move_bias` 1, above) makes more texts revised and costs quality.
- **Seeds differ by as much as arms.** Two seeds of `append` are 4 % apart in evalPPL, 5 % in distinct-2 and ten words in length, at the full budget; `late-1-marks` is 0.08 nats per token above its baseline with one seed and 0.04 with the other. Differences of that size between single runs mean nothing, here and in the screening.
- **It does not matter when late spans are trained.** Appending for the first 40 % of training and late spans alone for the last 40 % (`half-late-marks`) ends where late spans throughout do. Mixtures that reach late spans only at the very end (`annealed-late-marks`, `then-late-marks`) revise fewer texts; that they write better is within the difference between seeds.
- **Nothing between the paper's policy and late spans pays.** Fewer moves (`delete-0.9`) reduce the ratio from 43 to 11; half append and half spans of 16 (`mixed-50`) is at 1.34 and revises 29 % of its texts.
- **Going back sooner does not help**: the sentence written as soon as the next one is there, instead of at the end of the story, was at 1.118 [1.077, 1.166] at a fifth of the budget, at the same nats per token. It is not in the library.
- **Masked diffusion learns as slowly as `paper`.** On the same trunk and budget (positions read, as the other arms' ids) its bound is 5.04 nats per text token. `append`, a likelihood, costs 2.96; the 6.21 of `paper` include the order, and without the order tax they are a bound of 4.92. The texts that it writes in 128 steps are barely readable. Its learning rate is the recipe's, not tuned for it.
- **Showing the model the text around the cursor after a move does not pay.** With eight tokens shown on either side, and trained to correct slips, `late-1` reached the start of a sentence half of the time, but saw 14 % less text than `append` for the same FLOPs and wrote no better (1.290 [1.239, 1.352]). It was removed.
- **Short gaps are worse than sentences** at this budget: four tokens left out within a sentence (`short-1-marks`) break the text around them.

`late-2` cannot be trained again with today's code: late spans came in random order then. `commit` in the file of a run names the code it was made with; "dirty" is a tree with uncommitted changes. These runs have one: {dirty}.

Planned and not run: `spans-8`, `paper-merged`, `delete-0.95`, mixtures with 10 and 90 % appending, a mixture that changes from appending to spans; the third seed at the full budget; other biases and limits in decoding. The machine with matrix units that all of this ran on is no longer available, and the sampled corpus was lost with it. Its replacement reaches a twelfth of its peak (0.23 TFLOP/s on two cores, in float32, which is its best), so the corpus alone would take hours and the runs days. To run one, add it to `ARMS` in `experiments/stories/arms.py`.
"""

REVISING = """\
## Does deleting its own mistakes help?

A text at a lower temperature is more likely and less varied, so one number proves nothing. Here each model continues 200 held-out beginnings at four temperatures without top-k, in float32. We compare bits per character under stories15M (lower is better) with distinct-2, the share of different word pairs (higher is more varied). The model that only appends gives a line with one point per temperature. A model that revises is better if its points are below that line. "Ratio to the line" is its bits per character divided by the line's at the same distinct-2; beyond the ends of the line, by the nearer end.
"""

OWN_ERRORS = """\
Both models start from the shipped left-to-right baseline and train on 4,059 stories that were sampled from stories15M for this, with equal training FLOPs and one seed (1,290 and 1,200 steps of 8 stories). One only appends. The other learns to [take back its own mistakes](guides/train.md#let-the-model-take-back-its-mistakes): in two rounds of DAgger an oracle wrote the stories, the model wrote up to four ids in its place now and then (`oracle: 0.9`, `turn: 4`), and what the story does not have was deleted.
"""

OWN_ERRORS_END = """\
No. The model that deletes writes worse text at a higher cost. It deletes almost nine tokens for ten that it keeps, needs 2.8 actions per token, and its bits per character are above the line at the same diversity. (It was measured at two of the four temperatures, because its folder was lost with the machine.) Two likely causes:

- **What it learned to delete is not bad.** The oracle deletes whatever the one story at hand does not say. Most of that is as good as the story itself, and nothing in the text before it tells the two apart. So the model can learn how often deletions come, but hardly where they help.
- **Part of its training went into deletions.** Its held-out loss on plain stories is 2.294 nats, and the appending model's 2.185.
"""

FEW_ERRORS = """\
So we tried fewer mistakes, one token each (`oracle: 0.95`, `turn: 1`): then most tokens should be kept, and a deletion pays only for those that the model writes far more often than the stories do. These are new runs from the same start, on 1,800 other stories, which were sampled in float32, with equal training FLOPs (`reviser train recipes/take-back.yaml --set training.steps=402 --set 'policy={kind: dagger, address: moves, rounds: 2, drafts: 384, share: 0.75, oracle: 0.95, last_oracle: 0.95, turn: 1}'`, and 420 steps with `policy={kind: edits, address: moves}` to append).
"""

FEW_ERRORS_END = """\
This model costs hardly more than one that only appends: it deletes one token in 200 and takes 1.01 to 1.02 actions per token. But its bits per character are still 6 to 13 % above the line, and at most 40 % of its texts have a deletion or a move (the target was half). Its held-out loss on plain stories is 2.314 nats, and the appending model's 2.226: three quarters of its later examples come from rollouts of 384 stories per round, so it also saw fewer different stories.

A useful deletion needs a label that depends on the quality of what was written, for example a reward, or a stronger model's probability. All of this is one seed.
"""
