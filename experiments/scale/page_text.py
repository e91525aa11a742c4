"""The prose of the page on scale; braces are filled in by `report.py`."""

INTRODUCTION = """\
# Scale

`python -m experiments.scale.report` writes this page from a model (`experiments/scale`) and a record of runs (`experiments/scale/results`). No accelerator was used: the rates of our own code were measured on one shared machine with two cores, those of accelerators are published ones, and the last table lists every input with its unit and source. Trust ratios; absolute figures may be wrong by a factor of two. There are two sizes throughout: **paper**, its 300M trunk on 30 billion ids, and **10T**, an 8B trunk of Llama's shape on ten trillion.

- **The paper's size needs nothing new.** One node, one disk, a checkpoint every few hours, hours of training.
- **10T works on paper, except for the loader and two settings.** Two parts of our code do not scale: memory per document in every process, and shards that every node must hold. Both are changes in two files. Two settings that Accelerate and the Trainer have, activation recomputation and sharding within a node, are missing from our recipes. Existing engines do the rest.
- **1,000 requests per second take a few dozen devices**, about {price:.2f} times what the same texts cost left to right. 2 % of that are the extra actions and the rest is the mask on the host. The cost of a device that waits for the host has not been measured on a GPU, and could be larger than all our other costs (below).
"""

CHECKED = """\
## How far to trust it

Each row was predicted from smaller runs than the one measured (`python -m experiments.scale.run check --text enwik8_prose.txt --tokenizer GPT2`), then done with the real code: `reviser tokenize`, `reviser train` in float32 with one thread, `reviser serve` with `models/stories-revise` under Poisson arrivals. Times are processor seconds of one core, because the machine was shared; latencies are wall time, calibrated again before each run. [..] is the range over runs; for training, over intervals of one run.
"""

MISSES = """\
Bytes are exact when tokens and documents are known, and 4 to 5 % off when those are estimated from other text. Speeds are within a fifth; larger trunks are faster than predicted from small ones, because larger matrix products are more efficient. The plain mask takes a twentieth of a millisecond more between the sizes it was fitted to than at those sizes.

Latencies at 40 % of the capacity were about as predicted. **At 80 % they were twice as long, in both runs.** There are two possible causes, which these runs cannot separate. The server had a few hundredths of a core, and that share drifted. And in the calibration eight requests of equal length enter and leave together, while real requests come one by one, each with a pass of its own and a copy of the engine's cache, so the capacity was overestimated. Above 70 % of the capacity, read the simulator's latencies as lower bounds until the same command has run on a quiet machine.
"""

DATA = """\
## Data

**Uses** datatrove (tasks, restarts, Slurm, Ray) and any store that can be copied from. Shards are flat: two bytes per token up to 65,536 ids, four above, eight per document. A task writes one shard, and there are about 256 tasks at most.
"""

DATA_AFTER = """\
**Breaks first at 10T:** loader memory. `TokenShards.lengths` and the ends in `Windows` are eight bytes per document each, in every training process, and opening takes twice that for a moment. It grows with documents, not tokens: at 10T it is the whole memory of a host. The fix is to keep neither: cumulative windows per shard, and the rest from the mapped index. Forked loader workers share this memory; spawned ones each have their own.

**Second:** an order computed over all windows needs all shards on every node, through `mmap`, so an object store must be copied or mounted. The paper's shards are copied in seconds. 10T's are larger than a node's disks: put them on a shared file system, or give each node some of the shards and permute within them, which changes only `permute`'s range.

**Third:** 256 tasks. Each of 10T's would write its shard in {task}, on a core like ours, and one that dies starts over. `MOST_TASKS` is one number; its reason, two open maps per shard, allows some thousands.

**Users will not need it:** adapting an existing model takes millions to a few billion tokens, which one machine tokenizes in minutes to hours.
"""

LOADING = """\
## Loading

**Uses** torch's DataLoader; trajectories are sampled on the fly. A process that needs one micro-batch samples its group of sixteen, so with sixteen or more loader processes everything is sampled sixteen times, and never more often. Reads are single windows at random offsets.
"""

LOADING_AFTER = """\
**Breaks first:** small trunks. The smaller the model, the more ids per second a device reads, and that is where sampling sixteen times costs most. Two workers per device are enough for all of these; if they are not, add workers: a host has a dozen cores per device. Workers could pass on the fifteen micro-batches that they do not need, but this is not built. Each read is one page. The paper's shards fit in a node's page cache, where reads cost nothing; 10T's do not, and then the share of the disks counts.
"""

TRAINING = """\
## Training

**Uses** Transformers' Trainer over Accelerate: copies (DDP) or FSDP2 shards. Our part is the batch and the score. Weights, gradients and both moments are float32; matrix products are bf16. 10T keeps one input per layer and recomputes the rest, which is a third more work; without that it does not fit ("all kept"). The Trainer has a setting for it; our recipes do not yet. "Communication to compute" must stay below 1, or no overlap hides it.
"""

FAILURES = """\
A checkpoint is 12 bytes per parameter: weights and moments. FSDP2 writes its shards from all processes; copies are written by one. The interval is Young and Daly's. Lost time is saving, work since the last checkpoint, and {start:.0f} minutes until all processes run again. No data state is lost: an example is computed from its index, so a restart, even on another number of devices, needs no saved state and skips by counting.
"""

TRAINING_AFTER = """\
**Breaks first:** FSDP's communication across nodes. With micro-batches of one context, a thousand devices would wait for weights most of the time; with four they do not, and those fit in memory once activations are recomputed. Sharding within a node and copies across nodes would fix it; Accelerate can do that, but our recipes have no setting for it yet. At the paper's size nothing breaks.

**Then** failures. With one in two days, an hour between checkpoints costs about as much as the best interval; with one in a few hours it costs a tenth to a fifth of the run, so set `save_every`, which counts steps, by the best interval. Saving is synchronous (torch's asynchronous distributed checkpoints are not used), only your supervisor restarts the run (`torchrun --max-restarts`, Slurm's requeue), and at the end one process gathers all weights in host memory to write the model folder. We have run FSDP on two CPU processes, and never on a thousand of anything.

The cost of training is proportional to the policy's actions: at {ratios[1]:.2f} actions per token instead of {ratios[0]:.2f}, the same text takes {days[1]:.1f} days instead of {days[0]:.1f}.

**Users will not need it:** the released sizes train on one device. FSDP starts to matter near 4 billion parameters, where 16 bytes each and the activations no longer fit in 80 GB.
"""

SERVING = """\
## Serving

**Uses** vLLM (batching, paged keys and values, the GPU), `reviser serve` in front of it, and a load balancer in front of that. A request has {prompt} tokens of prompt and {text} written tokens. A step reads the weights once and each row's keys and values; the part of vLLM's published rate that this does not explain is a cost per row, the same for us and for left to right. We add 2 % more actions, and the mask, which the host computes while the device waits. Devices run at 70 % of their capacity.
"""

SERVING_AFTER = """\
The price of equal output is the ratio of actions times the ratio of step times. A plain mask is a few numpy operations for all rows. With marks, which our shipped model has, and with searches, a Python loop follows each row. That loop, not the 2 %, is most of the difference, and it could be one numpy operation.

Equal output means as many tokens, not equal quality: the perplexity of our small model's texts is 1.13 to 1.16 times the baseline's ([results.md](../results.md)).

The 300M trunk is hardly cheaper than the 8B, because at this size vLLM's host work is most of the step. Serve small trunks with fewer rows per device or several engines on one.

`reviser serve` is one Python process next to vLLM's. At 70 % it would send {actions:,.0f} actions per second, so it has {actions_us:.0f} microseconds of a core for each. Its real cost was not measured for this page (`just bench-serve MODEL --engine vllm` measures it). If it is higher, run several servers in front of one vLLM server (`reviser serve --engine vllm --url ...`), or ask for whole responses instead of events.
"""

OTHERS = """\
Published steps that are not inputs of the model:
"""

MEMORY = """\
Memory per request: keys and values are those of the history, moves included, where a left-to-right model holds those of the text. Deleted tokens stay in the history too.
"""

QUEUES = """\
One device with the 8B trunk and marks, {slots} requests at a time, texts of half to one and a half times the mean length, Poisson arrivals (simulated step by step). M/M/c treats every slot as a server at full-batch speed.
"""

QUEUES_AFTER = """\
No request queues below nine tenths of the capacity: with so many slots Erlang's wait is zero, and latency grows because fuller steps are longer. So scale out by `reviser_completion_seconds` rather than by `reviser_waiting`, which stays 0 until it is too late. Random splitting by the balancer is good enough; what matters is that a client that resumes a stream reaches the same replica ([deploy.md](../guides/deploy.md)).
"""

SENSITIVE = """\
## What if
"""

REVISING = """\
Actions per token multiply the price; little else does. The rows on vLLM's hidden host work are the largest unknown: in the second runner the mask waits for the device once per step, and this has not been run on a GPU ([engines.md](engines.md)). Measure that first, with `just bench-decode --vllm`, before building any of this. There is a way around it for vocabularies without marks, searches and spans: cursor and length are sums over the history that the device can compute by itself.

**Where it is cheaper:** revising. At a thousand tokens an editor takes a tenth of the steps of a baseline that rewrites, and a third to a half of its seconds ([revise-results.md](../revise-results.md)), so a service that revises drafts needs that share of the devices. That editor fixes half as much, so this is not a product yet. Filling a gap costs only the gap: 17 actions on average, where the baseline continues to the end of the sentences.
"""

NOT_NEEDED = """\
## What to do, in order

1. Run vLLM's second runner on one GPU and measure the mask's share of a step. All serving figures depend on it.
2. Follow marks in numpy rather than row by row.
3. Before a corpus of a billion documents: remove lengths and ends from the memory of every process.
4. Before shards exceed the disks of a node: shards by node.
5. Before 8B trunks on many nodes: activation recomputation and sharding within a node, as recipe settings.
6. Nothing else here is worth building before someone has the problem.
"""

INPUTS = """\
## Inputs
"""

RUNS_TEXT = """\
The MFU of the paper's size is assumed: small trunks in contexts of 512 reach less than large ones. Hours, dollars and cores per device are proportional to it; nothing else depends on it.
"""
