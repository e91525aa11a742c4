#!/bin/bash
# Run a batch as a Slurm array, whose tasks share the chunks:
#
#   sbatch --array=1-32 recipes/batch_slurm.sh revise -m MODEL --input IN/ --output OUT/
#
# Input and output must be on a shared disk, or URLs. A task that dies leaves chunks that are
# missing: submit the same array again.
#SBATCH --job-name=reviser
#SBATCH --gpus-per-task=1
#SBATCH --time=04:00:00
#SBATCH --requeue
exec reviser "$@" --part "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT"
