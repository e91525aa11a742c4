#!/bin/sh
# Train on several machines, and start again by itself if a process dies. Run it on every machine:
#
#   HEAD=first-machine:29500 MACHINES=2 sh recipes/train_elastic.sh my-recipe.yaml -o /shared/runs/mine
#
# torchrun stops all processes when one of them ends, waits until every machine is there again, and
# starts them at the last complete checkpoint. The output folder must be on a shared disk.

# By default torchrun keeps one store for all attempts. After a restart, processes find the addresses
# of the dead ones there and cannot connect (torch 2.13; pytorch/pytorch#167288).
export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1

exec torchrun \
  --nnodes "${MACHINES:-1}" \
  --nproc-per-node "${PROCESSES:-gpu}" \
  --max-restarts "${RESTARTS:-10}" \
  --rdzv-backend c10d \
  --rdzv-id "${RUN:-reviser}" \
  --rdzv-endpoint "${HEAD:-localhost:29500}" \
  -m reviser train "$@"
