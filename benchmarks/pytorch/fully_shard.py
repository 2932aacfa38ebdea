"""A training step of the small GPT-2 of gpt.py in PyTorch by DistributedDataParallel and fully_shard over gloo, one core a
rank, in turn in one run. benchmarks/parallel/fully_shard_bench.cpp is the same step in Lockstep.

usage: fully_shard.py RANKS STEPS      prints ddp_step_ms, fully_shard_step_ms and their quotient (medians)
"""
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from gpt import CONTEXT, GPT, TOKENS, WINDOWS


def sharded(mesh):
    torch.manual_seed(1)
    model = GPT()
    for block in model.h:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def replicated():
    torch.manual_seed(1)
    return nn.parallel.DistributedDataParallel(GPT())


def be_rank(rank, ranks, steps, port):
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    sides = {"ddp": replicated(), "fully_shard": sharded(init_device_mesh("cpu", (ranks,)))}
    optimizers = {name: torch.optim.AdamW(model.parameters(), lr=1e-4) for name, model in sides.items()}
    times = {name: [] for name in sides}
    window = torch.randint(TOKENS, (WINDOWS, CONTEXT))
    for _ in range(steps):
        for name, model in sides.items():
            dist.barrier()
            begin = time.perf_counter()
            optimizers[name].zero_grad()
            F.cross_entropy(model(window).view(-1, TOKENS), window.reshape(-1)).backward()
            optimizers[name].step()
            times[name].append(time.perf_counter() - begin)
    if rank == 0:
        median = {name: sorted(seen[2:])[len(seen[2:]) // 2] * 1e3 for name, seen in times.items()}
        print(f"ddp_step_ms {median['ddp']:.1f}  fully_shard_step_ms {median['fully_shard']:.1f}  "
              f"fully_shard/ddp {median['fully_shard'] / median['ddp']:.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    ranks = int(sys.argv[1])
    mp.spawn(be_rank, args=(ranks, int(sys.argv[2]), 29500 + os.getpid() % 1000), nprocs=ranks)
