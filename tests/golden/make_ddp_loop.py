"""Writes ddp_loop.h5: gradients that torch.nn.parallel.DistributedDataParallel leaves on each of 2 ranks, in float64.
make_ddp_loop.py [ddp_loop.h5]
Needs torch with gloo, numpy, h5py; CPU only. Each case is run with gradient_as_bucket_view off and on, which must agree to the bit.
"""
import os
import sys
import tempfile

import h5py
import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel

WORLD, ROWS = 2, (4, 3)


class Net(torch.nn.Module):
    """W2 tanh(W1 x + b1) + b2, and, if asked, + skip x."""

    def __init__(self, params):
        super().__init__()
        for name, value in params.items():
            self.register_parameter(name, torch.nn.Parameter(torch.tensor(value)))
        self.skips = False

    def forward(self, x):
        y = torch.tanh(x @ self.W1.T + self.b1) @ self.W2.T + self.b2
        return y + x @ self.skip.T if self.skips else y


class Run:
    def __init__(self, rank, params, data, view, **options):
        self.net = Net(params)
        if "skip" in params and not options:
            self.net.skip.requires_grad_(False)
        self.ddp = DistributedDataParallel(self.net, gradient_as_bucket_view=view, **options)
        self.data, self.stages = data, []

    def loss(self, k):
        x, t = self.data[k]
        return mse_loss(self.ddp(x), t)

    def note(self):
        self.stages.append({n: p.grad.detach().numpy().copy() for n, p in self.net.named_parameters()
                            if p.grad is not None})


def plain(run, rank):
    sgd = torch.optim.SGD(run.net.parameters(), lr=0.1)
    for k in range(3):
        sgd.zero_grad()
        run.loss(k).backward()
        run.note()
        sgd.step()


def accumulated(run, rank):
    for k in range(3):
        run.loss(k).backward()
        run.note()


def no_sync(run, rank):
    for k in range(2):
        with run.ddp.no_sync():
            run.loss(k).backward()
        run.note()
    run.loss(2).backward()
    run.note()


def no_sync_after_a_sum(run, rank):
    run.loss(0).backward()
    run.note()
    with run.ddp.no_sync():
        run.loss(1).backward()
    run.note()
    run.loss(2).backward()
    run.note()


def two_losses(run, rank):
    x, t = run.data[0]
    y = run.ddp(x)
    mse_loss(y, t).backward(retain_graph=True)
    run.note()
    (y ** 2).mean().backward()
    run.note()


def two_forwards_one_backward(run, rank):
    (run.loss(0) + run.loss(1)).backward()
    run.note()


def two_forwards_two_backwards(run, rank):
    first, second = run.loss(0), run.loss(1)
    first.backward()
    run.note()
    second.backward()
    run.note()
    run.loss(2).backward()
    run.note()


def forward_within_no_sync(run, rank):
    with run.ddp.no_sync():
        loss = run.loss(0)
    loss.backward()
    run.note()
    run.loss(1).backward()
    run.note()


def graphs_that_differ(run, rank):
    for k in range(2):
        run.net.skips = rank == (k + 1) % 2
        run.loss(k).backward()
        run.note()


CASES = {f.__name__: (f, {}) for f in (plain, accumulated, no_sync, no_sync_after_a_sum, two_losses, two_forwards_one_backward,
                                       two_forwards_two_backwards, forward_within_no_sync)}
CASES["graphs_that_differ"] = (graphs_that_differ, {"find_unused_parameters": True})


def inputs():
    r = np.random.default_rng(20261126)
    params = {"W1": r.standard_normal((5, 6)), "b1": r.standard_normal(5), "W2": r.standard_normal((4, 5)),
              "b2": r.standard_normal(4), "skip": r.standard_normal((4, 6))}
    data = [[(r.standard_normal((rows, 6)), r.standard_normal((rows, 4))) for _ in range(3)] for rows in ROWS]
    return params, data


def work(rank, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=WORLD)
    torch.set_num_threads(1)
    params, data = inputs()
    mine = [(torch.tensor(x), torch.tensor(t)) for x, t in data[rank]]
    results = {}
    for name, (case, options) in CASES.items():
        both = []
        for view in (False, True):
            run = Run(rank, params, mine, view, **options)
            case(run, rank)
            both.append(run.stages)
        for a, b in zip(*both):
            assert a.keys() == b.keys() and all((a[n] == b[n]).all() for n in a), name
        results[name] = both[0]
    torch.save(results, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(work, (folder,), nprocs=WORLD)
        found = [torch.load(f"{folder}/{rank}.pt", weights_only=False) for rank in range(WORLD)]
    params, data = inputs()
    with h5py.File(sys.argv[1] if len(sys.argv) > 1 else "ddp_loop.h5", "w", libver="earliest") as file:
        for name, value in params.items():
            file[f"param/{name}"] = value
        for rank, parts in enumerate(data):
            for k, (x, t) in enumerate(parts):
                file[f"data/rank{rank}/x{k}"], file[f"data/rank{rank}/t{k}"] = x, t
        for case in CASES:
            for rank in range(WORLD):
                for stage, gradients in enumerate(found[rank][case]):
                    for name, value in gradients.items():
                        file[f"case/{case}/stage{stage}/rank{rank}/{name}_f64"] = value
