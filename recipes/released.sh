#!/bin/sh
# Check a checkpoint that was released with the paper: convert it, let it continue C4 and measure.
#
#   sh recipes/released.sh reviser-100m.pt gpt2/ runs/released-100m
#
# gpt2/ is a folder with GPT-2's tokenizer.json. The last folder then has report.md, with the
# paper's figures next to yours. It needs a GPU, or patience; started again, it continues.
# TEXT, COUNT and MEASURES choose other documents, fewer prompts and other measures.
set -eu

checkpoint=$1 tokenizer=$2 output=$3
text=${TEXT:-hf:allenai/c4?name=en&split=validation}
measures=${MEASURES:---scorer openai-community/gpt2-large --mauve pll:google-bert/bert-base-uncased}

test -f "$output/model/config.json" ||
  # The paper says that its reported models read the history alone, so --without-canvas.
  reviser convert "$checkpoint" -o "$output/model" --tokenizer "$tokenizer" --without-canvas
reviser lab prompts "$text" --tokenizer "$tokenizer" -o "$output/prompts" --count "${COUNT:-1000}"
for seed in 123 124 125; do # the paper's; a line adds its number to the seed
  test -f "$output/texts/$seed.jsonl" ||
    reviser generate -m "$output/model" --input "$output/prompts/$seed.jsonl" \
      --output "$output/texts/$seed.jsonl" --seed "${seed}000000"
done
# shellcheck disable=SC2086  # several options
reviser lab eval "reviser=$output/texts" --prompts "$output/prompts" $measures -o "$output/eval.json"
reviser lab report "$output/eval.json" -o "$output/report.md"
