"""Times collectives of torch.distributed's Gloo backend, as benchmarks/comm/collectives_bench.cpp times Lockstep's: one
process a rank, one core each, float32 on the host.

usage: collectives.py RANKS COLLECTIVE BYTES...     (all_reduce, broadcast, reduce, all_gather, reduce_scatter,
                                                      all_to_all or send_recv)
Prints a line for each size: COLLECTIVE BYTES MICROSECONDS. The time of a call is that of the slowest rank, the median over
samples. BYTES is the size of the tensor for all_reduce, broadcast, reduce and send_recv (a round trip), and of the larger
tensor for the others.
"""
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

SAMPLE_SECONDS = 0.01
SECONDS_EACH = 1.0


def call_of(name, size, ranks, rank):
    whole = torch.zeros(max(1, size // 4))
    row = torch.zeros(max(1, size // 4 // ranks))
    rows = torch.zeros(row.numel() * ranks)
    others = torch.zeros_like(rows)

    def send_recv():
        if rank == 0:
            dist.send(whole, 1)
            dist.recv(whole, 1)
        elif rank == 1:
            dist.recv(whole, 0)
            dist.send(whole, 0)

    return {
        "all_reduce": lambda: dist.all_reduce(whole),
        "broadcast": lambda: dist.broadcast(whole, 0),
        "reduce": lambda: dist.reduce(whole, 0),
        "all_gather": lambda: dist.all_gather_into_tensor(rows, row),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(row, rows),
        "all_to_all": lambda: dist.all_to_all_single(others, rows),
        "send_recv": send_recv,
    }[name]


def slowest(seconds):
    time_of_all = torch.tensor([seconds], dtype=torch.float64)
    dist.all_reduce(time_of_all, dist.ReduceOp.MAX)
    return time_of_all.item()


def sample(call, batch):
    dist.barrier()
    start = time.perf_counter()
    for _ in range(batch):
        call()
    return slowest((time.perf_counter() - start) / batch)


def measure(rank, ranks, name, sizes, port):
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    for size in sizes:
        call = call_of(name, size, ranks, rank)
        sample(call, 1)
        once = min(sample(call, 1), sample(call, 1))
        batch = max(1, min(1000, int(SAMPLE_SECONDS / once)))
        samples = [sample(call, batch) for _ in range(max(5, min(51, int(SECONDS_EACH / (once * batch)))))]
        if rank == 0:
            print(name, size, f"{1e6 * statistics.median(samples):.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    ranks = int(sys.argv[1])
    mp.spawn(measure, args=(ranks, sys.argv[2], [int(size) for size in sys.argv[3:]], 29500 + os.getpid() % 1000),
             nprocs=ranks)
