"""A small GPT-2 in PyTorch, one core a rank: 6 layers, 6 heads, 384 wide, context 256, 96 tokens (10.8 M parameters).
benchmarks/compare_gpt.sh compares it with `gpt train` and benchmarks/nn/gpt_bench.cpp. With PRECISION=bf16 in the
environment training runs under autocast, and attention takes bfloat16.

usage: gpt.py train RANKS STEPS      4 windows a rank and step, AdamW, DistributedDataParallel over gloo: train_tokens_per_s
       gpt.py attention SECONDS      forward and backward of causal attention, 1024 positions, 6 heads of 64: attention_ms
       gpt.py sample SECONDS         255 tokens after a first one, with a key-value cache: sample_tokens_per_s
"""
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F

BF16 = os.environ.get("PRECISION") == "bf16"
LAYERS, HEADS, WIDTH, CONTEXT, TOKENS, WINDOWS = 6, 6, 384, 256, 96, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.c_attn, self.c_proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.c_fc, self.c_out = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, cache=None, seen=0):
        b, t, c = x.shape
        q, k, v = (u.view(b, t, HEADS, c // HEADS).transpose(1, 2) for u in self.c_attn(self.ln_1(x)).split(WIDTH, 2))
        if cache is not None:
            cache[0][:, :, seen : seen + t], cache[1][:, :, seen : seen + t] = k, v
            k, v = cache[0][:, :, : seen + t], cache[1][:, :, : seen + t]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=cache is None)
        x = x + self.c_proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(TOKENS, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.h = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f = nn.LayerNorm(WIDTH)

    def forward(self, tokens, caches=None, seen=0):
        x = self.wte(tokens) + self.wpe.weight[seen : seen + tokens.shape[1]]
        for i, block in enumerate(self.h):
            x = block(x) if caches is None else block(x, caches[i], seen)
        return F.linear(self.ln_f(x), self.wte.weight)


def be_rank(rank, ranks, steps, port):
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    torch.manual_seed(1)
    model = GPT()
    if ranks > 1:
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    times = []
    for _ in range(steps):
        window = torch.randint(TOKENS, (WINDOWS, CONTEXT + 1))
        begin = time.perf_counter()
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=BF16):
            logits = model(window[:, :-1])
            loss = F.cross_entropy(logits.view(-1, TOKENS).float(), window[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - begin)
    times = sorted(times[2:])
    if rank == 0:
        print(f"train_tokens_per_s {ranks * WINDOWS * CONTEXT / times[len(times) // 2]:.1f}", flush=True)
    dist.destroy_process_group()


def fastest(seconds, f):
    best, start = float("inf"), time.perf_counter()
    while time.perf_counter() - start < seconds:
        begin = time.perf_counter()
        f()
        best = min(best, time.perf_counter() - begin)
    return best


def attention(seconds):
    dtype = torch.bfloat16 if BF16 else torch.float32
    q, k, v = (torch.randn(1, 6, 1024, 64, dtype=dtype, requires_grad=True) for _ in range(3))
    upstream = torch.randn(1, 6, 1024, 64, dtype=dtype)

    def step():
        F.scaled_dot_product_attention(q, k, v, is_causal=True).backward(upstream)
        q.grad = k.grad = v.grad = None

    print(f"attention_ms {fastest(seconds, step) * 1e3:.3f}")


@torch.inference_mode()
def sample(seconds):
    model = GPT().eval()
    caches = [[torch.zeros(1, HEADS, CONTEXT, WIDTH // HEADS) for _ in range(2)] for _ in range(LAYERS)]

    def text():
        token = torch.ones(1, 1, dtype=torch.long)
        for seen in range(255):
            logits = model(token, caches, seen)[0, -1] / 0.8
            best, numbers = torch.topk(logits, 40)
            token = numbers[torch.multinomial(F.softmax(best, -1), 1)][None]

    print(f"sample_tokens_per_s {255 / fastest(seconds, text):.1f}")


def main():
    what = sys.argv[1]
    if what == "train":
        ranks = int(sys.argv[2])
        mp.spawn(be_rank, args=(ranks, int(sys.argv[3]), 29500 + os.getpid() % 1000), nprocs=ranks)
        return
    torch.set_num_threads(1)
    torch.manual_seed(1)
    {"attention": attention, "sample": sample}[what](float(sys.argv[2]))


if __name__ == "__main__":
    main()
