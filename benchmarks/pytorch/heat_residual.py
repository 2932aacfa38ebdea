"""Trains the network of docs/examples/heat_residual.cpp in the same way. Prints the error and the time of a step.

usage: heat_residual.py STEPS
"""
import math
import sys
import time

import torch

torch.set_num_threads(1)
torch.manual_seed(1234)
a, steps, points = 0.1, int(sys.argv[1]), 256
net = torch.nn.Sequential(
    torch.nn.Linear(2, 32), torch.nn.Tanh(), torch.nn.Linear(32, 32), torch.nn.Tanh(),
    torch.nn.Linear(32, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
adam = torch.optim.Adam(net.parameters(), lr=5e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, steps)


def evaluate(x, t):
    return net(torch.cat([x, t], 1))


def loss_of():
    x, t = (torch.rand(points, 1, requires_grad=True) for _ in range(2))
    u = evaluate(x, t)
    u_x, u_t = torch.autograd.grad(u.sum(), [x, t], create_graph=True)
    u_xx, = torch.autograd.grad(u_x.sum(), x, create_graph=True)
    x0, ends = torch.rand(points, 1), (torch.arange(points) % 2).float()[:, None]
    start = evaluate(x0, torch.zeros(points, 1)) - torch.sin(math.pi * x0)
    return (((u_t - a * u_xx) ** 2).mean() + 10.0 * (start ** 2).mean()
            + 10.0 * (evaluate(ends, torch.rand(points, 1)) ** 2).mean())


begin = time.perf_counter()
for step in range(steps):
    adam.zero_grad()
    loss_of().backward()
    adam.step()
    schedule.step()
passed = time.perf_counter() - begin
with torch.no_grad():
    x, t = (v.reshape(-1, 1) for v in torch.meshgrid(torch.linspace(0, 1, 101), torch.linspace(0, 1, 101), indexing="ij"))
    truth = torch.exp(-a * math.pi ** 2 * t) * torch.sin(math.pi * x)
    error = (torch.linalg.norm(evaluate(x, t) - truth) / torch.linalg.norm(truth)).item()
print(f"relative L2 error {error:.1e}, {1e3 * passed / steps:.2f} ms a step")
