"""Times PyTorch's operations on one thread, as benchmarks/autograd/operations_bench.cpp times Lockstep's. Prints a line for
each: its name and the microseconds of forward and backward, the lowest of many calls.

usage: operations.py [SECONDS]
"""
import sys
import time

import torch
import torch.nn.functional as F

torch.set_num_threads(1)
seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 0.1


def noise(*shape, low=-1.0):
    return torch.rand(*shape) * 2 + low


def measure(name, shapes, f, low=-1.0):
    inputs = [noise(*shape, low=low).requires_grad_() for shape in shapes]
    forward = backward = 1e30
    gradient, calls, begin = None, 0, time.perf_counter()
    while calls < 5 or time.perf_counter() - begin < seconds:
        calls += 1
        for x in inputs:
            x.grad = None
        start = time.perf_counter()
        y = f(*inputs)
        forward = min(forward, time.perf_counter() - start)
        if gradient is None:
            gradient = torch.ones_like(y)
        start = time.perf_counter()
        y.backward(gradient)
        backward = min(backward, time.perf_counter() - start)
    print(f"{name} {forward * 1e6:.1f} {backward * 1e6:.1f}", flush=True)


def measure_optimizer(name, **options):
    w = torch.nn.Parameter(noise(1 << 20))
    optimizer = getattr(torch.optim, name)([w], **options)
    w.grad = noise(1 << 20, low=-0.9)
    best, calls, begin = 1e30, 0, time.perf_counter()
    while calls < 5 or time.perf_counter() - begin < seconds:
        calls += 1
        start = time.perf_counter()
        optimizer.step()
        best = min(best, time.perf_counter() - start)
    print(f"{name} {best * 1e6:.1f} 0.0", flush=True)


plane = (64, 4096)
for name, f, low in (("abs", torch.abs, -1), ("exp", torch.exp, -1), ("log", torch.log, 0.1), ("sqrt", torch.sqrt, 0.1),
                     ("rsqrt", torch.rsqrt, 0.1), ("sin", torch.sin, -1), ("cos", torch.cos, -1),
                     ("pow_3", lambda x: x ** 3, -1), ("pow_1.7", lambda x: x ** 1.7, 0.1),
                     ("clamp", lambda x: torch.clamp(x, -0.5, 0.5), -1), ("leaky_relu", F.leaky_relu, -1), ("elu", F.elu, -1),
                     ("selu", F.selu, -1), ("softplus", F.softplus, -1), ("softsign", F.softsign, -1), ("relu6", F.relu6, -1),
                     ("hardsigmoid", F.hardsigmoid, -1), ("hardswish", F.hardswish, -1), ("mish", F.mish, -1),
                     ("logsigmoid", F.logsigmoid, -1), ("glu", F.glu, -1)):
    measure(name, [plane], f, low)
measure("prelu", [(64, 64, 64), (64,)], F.prelu)
which = noise(*plane) > 0
measure("where", [plane, plane], lambda a, b: torch.where(which, a, b))
measure("cumsum", [plane], lambda x: torch.cumsum(x, 1))
measure("sort", [plane], lambda x: torch.sort(x)[0])
measure("topk", [plane], lambda x: torch.topk(x, 10)[0])

target, share = noise(*plane), noise(*plane, low=0.0)
measure("l1_loss", [plane], lambda x: F.l1_loss(x, target))
measure("smooth_l1_loss", [plane], lambda x: F.smooth_l1_loss(x, target))
measure("huber_loss", [plane], lambda x: F.huber_loss(x, target))
measure("kl_div", [plane], lambda x: F.kl_div(x, share, reduction="batchmean"))
measure("poisson_nll_loss", [plane], lambda x: F.poisson_nll_loss(x, share))
measure("gaussian_nll_loss", [plane, plane], lambda x, var: F.gaussian_nll_loss(x, target, var), 0.1)
measure("triplet_margin_loss", [(512, 256)] * 3, F.triplet_margin_loss)
alike = torch.ones(512, dtype=torch.int64)
measure("cosine_embedding_loss", [(512, 256)] * 2, lambda a, b: F.cosine_embedding_loss(a, b, alike))
targets = (torch.arange(16 * 20) % 31 + 1).reshape(16, 20)
frames, lengths = torch.full((16,), 100), torch.full((16,), 20)
measure("ctc_loss", [(100, 16, 32)], lambda x: F.ctc_loss(F.log_softmax(x, 2), targets, frames, lengths))

image = (16, 64, 32, 32)
measure("group_norm", [image, (64,), (64,)], lambda x, w, b: F.group_norm(x, 8, w, b))
measure("instance_norm", [image, (64,), (64,)], lambda x, w, b: F.instance_norm(x, weight=w, bias=b))
measure("local_response_norm", [image], lambda x: F.local_response_norm(x, 5))
for mode in ("constant", "reflect", "replicate", "circular"):
    measure("pad_" + mode, [image], lambda x: F.pad(x, (1, 1, 1, 1), mode=mode))
measure("pixel_shuffle", [image], lambda x: F.pixel_shuffle(x, 2))
measure("upsample_nearest", [image], lambda x: F.interpolate(x, scale_factor=2, mode="nearest"))
measure("upsample_bilinear", [image], lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"))

measure("conv1d", [(32, 64, 256), (64, 64, 3), (64,)], lambda x, w, b: F.conv1d(x, w, b, padding=1))
measure("conv3d", [(4, 16, 16, 24, 24), (32, 16, 3, 3, 3), (32,)], lambda x, w, b: F.conv3d(x, w, b, padding=1))
measure("conv_transpose1d", [(32, 64, 128), (64, 32, 4), (32,)],
        lambda x, w, b: F.conv_transpose1d(x, w, b, stride=2, padding=1))
measure("conv_transpose2d", [(16, 64, 16, 16), (64, 32, 2, 2), (32,)], lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2))
measure("conv_transpose3d", [(4, 32, 8, 8, 8), (32, 16, 2, 2, 2), (16,)],
        lambda x, w, b: F.conv_transpose3d(x, w, b, stride=2))
line, volume = (32, 64, 512), (4, 32, 16, 24, 24)
measure("max_pool1d", [line], lambda x: F.max_pool1d(x, 3, 2, 1))
measure("max_pool2d_3x2", [image], lambda x: F.max_pool2d(x, (3, 2), (2, 2), (1, 0)))
measure("max_pool3d", [volume], lambda x: F.max_pool3d(x, 2))
measure("avg_pool1d", [line], lambda x: F.avg_pool1d(x, 3, 2, 1))
measure("avg_pool2d_3x2", [image], lambda x: F.avg_pool2d(x, (3, 2), (2, 2), (1, 0)))
measure("avg_pool3d", [volume], lambda x: F.avg_pool3d(x, 2))
measure("adaptive_max_pool2d", [image], lambda x: F.adaptive_max_pool2d(x, 7))
measure("adaptive_avg_pool3d", [volume], lambda x: F.adaptive_avg_pool3d(x, (4, 5, 6)))

for name in ("RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD"):
    measure_optimizer(name)
