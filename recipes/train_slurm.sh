#!/bin/bash
# Train on a Slurm cluster, from the folder that has `recipes/`:
#
#   sbatch --nodes 4 recipes/train_slurm.sh my-recipe.yaml -o /shared/runs/mine
#
# A process that dies is started again within the job (see train_elastic.sh). If a node fails, or
# the time of the job is over, the job goes back into the queue and continues at the last complete
# checkpoint, ten times at most. The output folder must be on a shared disk.
#SBATCH --job-name=reviser-train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=32
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@300

requeue() {
  if [ "${SLURM_RESTART_COUNT:-0}" -lt 10 ]; then
    scontrol requeue "$SLURM_JOB_ID"
  fi
}
# Five minutes before the end of the job's time. The work since the last checkpoint is repeated.
trap 'requeue; exit 0' USR1

head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MACHINES="$SLURM_JOB_NUM_NODES" PROCESSES="${SLURM_GPUS_ON_NODE:-${PROCESSES:-gpu}}"
export HEAD="$head:29500" RUN="$SLURM_JOB_ID"

srun --kill-on-bad-exit=1 sh recipes/train_elastic.sh "$@" &
wait $!
status=$?
if [ "$status" -ne 0 ]; then
  requeue
fi
exit "$status"
