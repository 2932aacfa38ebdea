"""Trains the MLP of benchmarks/parallel/pipeline_bench.cpp by torch.distributed.pipelining on Gloo: one process a rank,
one core each, for benchmarks/compare_pipeline.sh.

usage: pipeline.py RANKS SCHEDULE SECONDS     (gpipe, 1f1b, interleaved or h1)
Prints the samples/s of the median step, on the slowest rank.
"""
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B
from torch.distributed.pipelining.schedules import ScheduleInterleavedZeroBubble

WIDTH, ROWS, LAYERS, MICROBATCHES = 1024, 256, 8, 8
SCHEDULES = {
    "gpipe": (ScheduleGPipe, 1),
    "1f1b": (Schedule1F1B, 1),
    "interleaved": (ScheduleInterleaved1F1B, 2),
    "h1": (ScheduleInterleavedZeroBubble, 1),
}


def slowest(seconds):
    time_of_all = torch.tensor([seconds], dtype=torch.float64)
    dist.all_reduce(time_of_all, dist.ReduceOp.MAX)
    return time_of_all.item()


def train(rank, ranks, name, seconds, port):
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    torch.manual_seed(1)
    kind, stages_a_rank = SCHEDULES[name]
    stages = ranks * stages_a_rank
    layers = LAYERS // stages
    modules = [torch.nn.Sequential(*[part for _ in range(layers)
                                     for part in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU())])
               for _ in range(stages_a_rank)]
    parts = [PipelineStage(module, rank + i * ranks, stages, torch.device("cpu"))
             for i, module in enumerate(modules)]
    several = name in ("interleaved", "h1")
    schedule = kind(parts if several else parts[0], MICROBATCHES, loss_fn=F.mse_loss)
    optimizer = torch.optim.SGD([p for module in modules for p in module.parameters()], lr=0.01)
    x = torch.randn(ROWS, WIDTH)

    def step():
        optimizer.zero_grad()
        inputs = (x,) if rank == 0 else ()
        if rank == ranks - 1:
            schedule.step(*inputs, target=x, losses=[])
        else:
            schedule.step(*inputs)
        optimizer.step()

    for _ in range(3):
        step()
    samples, start = [], time.perf_counter()
    while True:
        dist.barrier()
        begin = time.perf_counter()
        step()
        samples.append(slowest(time.perf_counter() - begin))
        if slowest(time.perf_counter() - start) > seconds:
            break
    if rank == 0:
        print(f"{ROWS / statistics.median(samples):.1f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(train, args=(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]), 29500 + os.getpid() % 1000),
             nprocs=int(sys.argv[1]))
