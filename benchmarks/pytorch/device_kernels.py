"""Times PyTorch's kernels on a GPU, as benchmarks/tensor/device_bench.cpp times Lockstep's. Prints the same lines, with the
mode "eager".

usage: device_kernels.py cuda|cpu ELEMENTS SIZE
"""
import sys
import time

import torch
import torch.nn.functional as F


def milliseconds(device, f):
    rounds = []
    for _ in range(3):
        f()
    for _ in range(9):
        if device == "cuda":
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for _ in range(10):
                f()
            end.record()
            end.synchronize()
            rounds.append(begin.elapsed_time(end) / 10)
        else:
            start = time.perf_counter()
            f()
            rounds.append(1e3 * (time.perf_counter() - start))
    return sorted(rounds)[len(rounds) // 2]


@torch.inference_mode()
def main():
    device, elements, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    x = torch.zeros(1, device=device)
    best = float("inf")
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(1000):
            x.fill_(1.0)
        best = min(best, time.perf_counter() - start)
    print(f"speed eager launches f32 1000 {1 / best:.4g} thousand/s")
    for name, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16)):
        x = torch.rand(elements // 1024, 1024, device=device).mul(2).sub(1).to(dtype)
        y, weight, bias = torch.zeros_like(x), torch.ones(1024, dtype=dtype, device=device), torch.zeros(1024, dtype=dtype, device=device)
        kernels = {"copy": lambda: y.copy_(x), "gelu": lambda: F.gelu(x, approximate="tanh"), "softmax": lambda: F.softmax(x, 1),
                   "layer_norm": lambda: F.layer_norm(x, (1024,), weight, bias)}
        for kernel, f in kernels.items():
            speed = 2 * x.numel() * x.element_size() / milliseconds(device, f) / 1e6
            print(f"speed eager {kernel} {name} {elements} {speed:.4g} GB/s")
        a, b = (torch.rand(size, size, device=device).mul(2).sub(1).to(dtype) for _ in range(2))
        speed = 2 * size**3 / milliseconds(device, lambda: torch.matmul(a, b)) / 1e9
        print(f"speed eager matmul {name} {size} {speed:.4g} TFLOP/s")


if __name__ == "__main__":
    main()
