"""The prose of the page on scale; braces are filled in by `report.py`."""

INTRODUCTION = """\
# Scale

Four questions: how to tokenize ten trillion tokens, train a model above a billion parameters, process a billion documents, and serve 10,000 requests per second. Most users have none of these problems; the table says who does.

| question | who needs it | what we run | tested here | projected |
| --- | --- | --- | --- | --- |
| [Tokenize 10T tokens](#tokenize-10t-tokens) | those who train a large model from nothing | datatrove on Slurm or Ray | megabytes of text; loaders with up to ten million documents | hours and bytes at 10T |
| [Train above 1B](#train-above-1b-parameters) | those whose model does not fit on one GPU | Transformers' Trainer, Accelerate, FSDP2, torchrun | four CPU processes as two machines of two | memory, failures, days and cost |
| [Process a billion documents](#process-a-billion-documents) | those who revise or continue a corpus | `reviser revise --on ray` or `--part K/N`, or datatrove against servers | a Ray cluster of three node processes | nothing: it is more of the same |
| [Serve 10,000 requests per second](#serve-10000-requests-per-second) | large services | vLLM, `reviser serve`, nginx or Kubernetes | three replicas and nginx, one killed under load | devices, latency and cost |

`python -m experiments.scale.report` writes this page from a model (`experiments/scale`) and a record of runs (`experiments/scale/results`). **No accelerator was used.** The rates of our own code were measured on one shared machine with two cores, those of accelerators are published, and the last table lists every input with its unit and source. Trust ratios; absolute figures may be wrong by a factor of two. There are two sizes of training: **paper**, its 300M trunk on {paper_ids:.0f} billion ids, and **10T**, an 8B trunk of Llama's shape on ten trillion.
"""

CHECKED = """\
## How far to trust it

Each row was predicted from smaller runs than the one measured (`python -m experiments.scale.run check --text enwik8_prose.txt --tokenizer GPT2`), then done with the real code: `reviser tokenize`, `reviser train` in float32 with one thread, `reviser serve` with the `models/stories-revise` of version 0.1.0 under Poisson arrivals. Times are processor seconds of one core, because the machine was shared; latencies are wall time, calibrated again before each run. [..] is the range over runs; for training, over intervals of one run.
"""

MISSES = """\
Bytes are exact when tokens and documents are known, and {bytes[0]:.0%} to {bytes[1]:.0%} off when those are estimated from other text. Tokenizing and training are within a fifth; larger trunks are faster than predicted from small ones, because larger matrix products are more efficient. A sampler of which each sixteenth micro-batch is used is {sampler:.0%} faster. At 64 rows, masks with searches take {search:.0%} more than a line through 8 and 512 rows says, and masks with marks {marks:.0%} more.

Latencies at 40 % of the capacity were about as predicted. **At 80 % they were twice as long, in both runs.** There are two possible causes, which these runs cannot separate. The server had a few hundredths of a core, and that share drifted. And in the calibration eight requests of equal length enter and leave together, while real requests come one by one, each with a pass of its own and a copy of the engine's cache, so the capacity was overestimated. Above 70 % of the capacity, read the simulator's latencies as lower bounds until the same command has run on a quiet machine.
"""

DATA = """\
## Tokenize 10T tokens

**What others run:** datatrove, which made FineWeb (15 trillion tokens) on a Slurm cluster. **What we run:** the same (`recipes/tokenize_slurm.py`, `recipes/tokenize_ray.py`); one command does it on one machine. Files over 1 GiB are cut, so a task that dies costs minutes, and input comes from any fsspec URL. Shards are flat: two bytes per token up to 65,536 ids, four above, eight per document.
"""

DATA_AFTER = """\
A training process keeps one number for every block of documents and finds the rest in the mapped index of each shard. A block has 64 documents, or more in a large corpus, so that there are at most four million blocks. It kept two numbers for every document before, which would have been the whole memory of a host at 10T. Finding a window now takes two short searches, so it is slower, but sampling trajectories takes longer than finding windows. Before and after took turns in one run (`python -m experiments.scale.loader`); [..] is the range over rounds:
"""

LOADING = """\
### Loading

Trajectories are sampled on the fly by torch's DataLoader workers. A process that needs one micro-batch samples its group of sixteen, so with sixteen or more loader processes everything is sampled sixteen times, and never more often. Reads are single windows at random offsets.
"""

LOADING_AFTER = """\
**Breaks first:** small trunks. The smaller the model, the more ids per second a device reads, and that is where sampling sixteen times costs most. Two workers per device are enough for all of these; if they are not, add workers: a host has a dozen cores per device. Workers could pass on the fifteen micro-batches that they do not need, but this is not built. Each read is one page. The paper's shards fit in a node's page cache, where reads cost nothing; 10T's do not, and then the share of the disks counts.
"""

TRAINING = """\
## Train above 1B parameters

**What others run:** FSDP2 or Megatron, sharding within a node and copies across nodes, activation recomputation, asynchronous sharded checkpoints, a supervisor that restarts. **What we run:** the same through Transformers' Trainer, Accelerate and torch: `training: {parallel: hybrid, recompute: true}`, checkpoints written in the background, `recipes/train_elastic.sh` and `recipes/train_slurm.sh`. Our part is the batch and the score. [The guide](../guides/train.md#train-a-model-that-does-not-fit-on-one-device) has the settings.

Weights, gradients and both moments are float32; matrix products are bf16. 10T keeps one input per layer and recomputes the rest, which is a third more work; without that it does not fit ("all kept"). "Communication to compute" must stay below 1, or no overlap hides it.
"""

FAILURES = """\
A checkpoint is 12 bytes per parameter: weights and moments. FSDP2 writes its shards from all processes; copies are written by one. The interval is Young and Daly's. Lost time is saving, work since the last checkpoint, and {start:.0f} minutes until all processes run again. No data state is lost: an example is computed from its index, so a restart, even on another number of devices, needs no saved state and skips by counting.
"""

TRAINING_AFTER = """\
**Tested:** four CPU processes as two machines of two, whose losses equal those of one process to 1 in 10,000; one process on each machine is killed, and the run finishes by itself with the same weights. **Not tested:** anything on a GPU, or more than four processes.

**Breaks first:** communication across nodes. With micro-batches of one context, a thousand devices would wait for weights most of the time under `fsdp`; `hybrid` keeps the weights within a node, and only gradients cross. **Then** failures: with one in two days, an hour between checkpoints costs about as much as the best interval; with one in a few hours it costs a tenth to a fifth of the run, so set `save_every`, which counts steps, by the best interval. At the end one process gathers all weights in host memory to write the model folder.

The cost of training is proportional to the policy's actions: at {ratios[1]:.2f} actions per token instead of {ratios[0]:.2f}, the same text takes {days[1]:.1f} days instead of {days[0]:.1f}.

**Most users will not need it:** the paper's sizes train on one device. Sharding starts to matter near 4 billion parameters, where 16 bytes each and the activations no longer fit in 80 GB.
"""

SERVING = """\
## Serve 10,000 requests per second

**What others run:** vLLM pods on Kubernetes, with a gateway that knows their load. **What we run:** the same pods with our mask as a plugin, `reviser serve --url POD1 --url POD2 ...` in front of them, and nginx or Kubernetes in front of that ([deploy](../guides/deploy.md)).

A request has {prompt} tokens of prompt and {text} written tokens. A step reads the weights once and each row's keys and values; the part of vLLM's published rate that this does not explain is a cost per row, the same for us and for left to right. We add {more:.0%} more actions, and the mask, which the host computes while the device waits. Devices run at 70 % of their capacity.
"""

SERVING_AFTER = """\
The price of equal output is the ratio of actions times the ratio of step times. The mask is a few numpy operations for all rows, also with marks and searches; it was a Python loop over rows before. Microseconds of processor time per row and step, before and after, taking turns in one run on a busy machine (`python -m experiments.speed.masks`); the ratio is before to after, with its range over rounds:
"""

SERVER = """\
### The server and its engine

With Transformers, the engine has a process of its own, next to the server's; vLLM always has. {requests} requests of {concurrency} at a time, {rounds} rounds; the bare engine and the servers take turns on a machine with two cores, one compute thread per engine, and the client on the same cores (`python -m experiments.speed.serve models/stories-revise --against own_process=false --replicas 3`). [..] are quartiles over the rounds:
"""

SERVER_END = """\
In its own process the engine loses almost nothing to the server; in the server's it lost {lost:.0%} while it streamed, because one interpreter ran both. Three servers on two cores write {more[0]:.0%} to {more[1]:.0%} more than one, probably because the second core, which the client and the server hardly use, then runs an engine too. On a machine with a core for each, expect more; it was not measured.
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
Actions per token multiply the price; little else does. The rows on vLLM's hidden host work are the largest unknown: in the second runner the mask waits for the device once per step, and this has not been run on a GPU ([engines.md](engines.md)). Measure that first, with `just bench-decode --vllm`.

**Where it is cheaper:** revising. At a thousand tokens an editor takes a tenth of the steps of a baseline that rewrites, and a third to a half of its seconds ([revise-results.md](../revise-results.md)), so a service that revises drafts needs that share of the devices. Filling a gap costs only the gap: {gap:.0f} actions on average, where the baseline continues to the end of the sentences.
"""

NOT_NEEDED = """\
## What to do next, in order

1. Run vLLM's second runner on one GPU and measure the mask's share of a step. All serving figures depend on it.
2. Run `parallel: hybrid` on two real nodes.
3. Nothing else here is worth building before someone has the problem.
"""

INPUTS = """\
## Inputs
"""

RUNS_TEXT = """\
The MFU of the paper's size is assumed: small trunks in contexts of 512 reach less than large ones. Hours, dollars and cores per device are proportional to it; nothing else depends on it.
"""

DATA_END = """\
![Memory of a loader process by documents, before and after](../img/scale-loader.svg)

![Processor seconds by tokens](../img/scale-tokens.svg)

After its start, tokenizing takes time in proportion to the text (`python -m experiments.scale.growth`, one process).

**Breaks next:** the order is over all windows, so every node must reach all shards. 10T's shards are larger than a node's disks, so they must be on storage that all nodes share.
"""

CORPUS = """\
## Process a billion documents

**What others run:** Ray Data or datatrove with vLLM, on preemptible machines. **What we run:** the same engines, around one idea: a chunk of documents becomes one file, written whole. So every scheduler only has to run the chunks whose files are missing, and a kill costs one chunk. Documents add their number to the seed, so workers, schedulers and kills change nothing. [The guide](../guides/corpus.md) has the commands.
"""

CORPUS_AFTER = """\
![Processor seconds of one job by processes](../img/scale-processes.svg)

Processes share nothing but the folder, so more of them do not make a document dearer. Each adds its start: importing torch and loading a small model takes {start:.1f} seconds of a core here, where the {documents:,} documents of this job, with a random model of one layer, take {alone:.1f} (`python -m experiments.scale.growth`).

At one 8B device's {capacity:.0f} requests per second, a billion continuations of {text} tokens take {days:,.0f} device days; corrections take less, because an editor writes only the changes. The number of chunks is the only list that grows: 10,000 documents each make 100,000 files.
"""

SERVING_END = """\
![Cost of the mask per row by rows, before and after](../img/scale-masks.svg)

A single row is slower with searches than before: the arrays cost more to set up than one row's loop. Equal output means as many tokens, not equal quality: the perplexity of our small model's texts is {ratios[0]:.2f} to {ratios[1]:.2f} times the baseline's ([results.md](../results.md)).

The 300M trunk is hardly cheaper than the 8B, because at this size vLLM's host work is most of the step. Serve small trunks with fewer rows per device or several engines on one.

`reviser serve` is one Python process next to vLLM's. At 70 % it would send {actions:,.0f} actions per second, so it has {actions_us:.0f} microseconds of a core for each. Its real cost was not measured for this page (`just bench-serve MODEL --engine vllm` measures it). If it is higher, run several in front of the same pods.
"""
