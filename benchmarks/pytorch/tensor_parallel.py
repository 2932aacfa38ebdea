"""A training step of a GPT of width 768 in PyTorch, one core a rank: on two ranks shared out by parallelize_module over
gloo, on one rank undivided. The counterpart of benchmarks/parallel/tensor_bench.cpp, with its environment variables;
benchmarks/compare_tensor_parallel.sh runs both.

usage: tensor_parallel.py RANKS [STEPS]      prints step_ms, the median on rank 0
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
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel
from torch.distributed.tensor.parallel import loss_parallel, parallelize_module

WIDTH, HEADS = 768, 12
DEPTH, WINDOWS = int(os.environ.get("DEPTH", 4)), int(os.environ.get("WINDOWS", 4))
CONTEXT, TOKENS = int(os.environ.get("CONTEXT", 256)), int(os.environ.get("VOCABULARY", 8192))
SEQUENCE = os.environ.get("SEQUENCE", "0") == "1"


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.c_proj = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        head = WIDTH // HEADS
        q, k, v = (f(x).unflatten(-1, (-1, head)).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2, self.attn = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), Attention()
        self.c_fc, self.c_out = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(TOKENS, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.h = nn.ModuleList(Block() for _ in range(DEPTH))
        self.ln_f = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, TOKENS, bias=False)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.h:
            x = block(x)
        return self.head(self.ln_f(x))


def parallel(model, mesh):
    cut = Shard(1) if SEQUENCE else Replicate()
    plan = {
        "wte": RowwiseParallel(input_layouts=Replicate()),
        "head": ColwiseParallel(input_layouts=cut, output_layouts=Shard(-1), use_local_output=False),
    }
    if SEQUENCE:
        plan["h.0"] = PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Shard(1), use_local_output=True)
        plan["ln_f"] = SequenceParallel()
    for i in range(DEPTH):
        at = f"h.{i}."
        for name in ("q", "k", "v"):
            plan[f"{at}attn.{name}"] = ColwiseParallel(input_layouts=cut)
        plan[f"{at}attn.c_proj"] = RowwiseParallel(output_layouts=cut)
        plan[f"{at}c_fc"] = ColwiseParallel(input_layouts=cut)
        plan[f"{at}c_out"] = RowwiseParallel(output_layouts=cut)
        if SEQUENCE:
            plan[f"{at}ln_1"] = plan[f"{at}ln_2"] = SequenceParallel(use_local_output=True)
    return parallelize_module(model, mesh, plan)


def be_rank(rank, ranks, steps, port):
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    torch.manual_seed(1)
    model = GPT()
    if ranks > 1:
        model = parallel(model, init_device_mesh("cpu", (ranks,)))
    model.head.weight = model.wte.weight  # tied; of two ranks, each has the same rows of both
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, foreach=False)
    tokens = (torch.arange(WINDOWS * CONTEXT) * 7919 % TOKENS).view(WINDOWS, CONTEXT)

    def loss_of(logits):
        return F.cross_entropy(logits.flatten(0, 1), tokens.flatten())

    times = []
    for _ in range(steps + 2):
        dist.barrier()
        begin = time.perf_counter()
        optimizer.zero_grad()
        logits = model(tokens)
        if ranks > 1:
            with loss_parallel():
                loss_of(logits).backward()
        else:
            loss_of(logits).backward()
        optimizer.step()
        times.append(time.perf_counter() - begin)
    times = sorted(times[2:])
    if rank == 0:
        print(f"step_ms {times[len(times) // 2] * 1e3:.1f}", flush=True)
    dist.destroy_process_group()


def main():
    ranks = int(sys.argv[1])
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 8
    mp.spawn(be_rank, args=(ranks, steps, 29500 + os.getpid() % 1000), nprocs=ranks)


if __name__ == "__main__":
    main()
