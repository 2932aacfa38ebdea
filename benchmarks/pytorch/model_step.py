"""Times a training step of a bundled model in PyTorch on one thread, as benchmarks/nn/model_step_bench.cpp times
Lockstep's: forward, loss, backward and SGD on one fixed random batch. With RANKS it uses DistributedDataParallel over
gloo, one core a rank, for benchmarks/compare_pytorch.sh; BATCH is then the global batch size.

With PRECISION=bf16 in the environment it runs under autocast.

usage: model_step.py MODEL BATCH [SECONDS [RANKS]]     (MODEL convnet, mlp, resnet18 or transformer)
Prints a line: samples/s of the median step, the number of parameters, and the peak growth of the process.
"""
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F

from convnet import ConvNet


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(784, 512)
        self.fc2 = nn.Linear(512, 256)
        self.fc3 = nn.Linear(256, 10)

    def forward(self, x):
        x = F.relu(self.fc2(F.relu(self.fc1(x.flatten(1)))))
        return F.log_softmax(self.fc3(x), dim=1)


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = self.bn2(self.conv2(y))
        y += x if self.downsample is None else self.downsample(x)
        return F.relu(y, inplace=True)


class ResNet18(nn.Module):
    """torchvision's resnet18 with a stem for small images: 3 x 3, stride 1, no max-pool."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        inputs = 64
        for i, outputs in enumerate((64, 128, 256, 512)):
            stride = 1 if i == 0 else 2
            self.add_module(f"layer{i + 1}", nn.Sequential(Block(inputs, outputs, stride), Block(outputs, outputs, 1)))
            inputs = outputs
        self.fc = nn.Linear(512, 10)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return F.log_softmax(self.fc(x.mean((2, 3))), dim=1)


class Transformer(nn.Module):
    def __init__(self, width=192, depth=6, heads=3, patch=4, size=28):
        super().__init__()
        self.patch_embed = nn.Conv2d(1, width, patch, patch)
        self.pos_embedding = nn.Parameter(torch.randn(1, (size // patch) ** 2, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, nn.LayerNorm(width), enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        x = self.patch_embed(x).flatten(2).transpose(1, 2) + self.pos_embedding
        return F.log_softmax(self.head(self.encoder(x).mean(1)), dim=1)


MODELS = {"convnet": (ConvNet, (1, 28, 28)), "mlp": (MLP, (1, 28, 28)), "resnet18": (ResNet18, (3, 32, 32)),
          "transformer": (Transformer, (1, 28, 28))}


def memory_mib(name):
    with open("/proc/self/status") as status:
        return next(float(line.split()[1]) / 1024 for line in status if line.startswith(name + ":"))


def train(make, sample, batch, seconds, wrap=lambda model: model, ranks=1):
    model = wrap(make())
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    x, target = torch.randn(batch, *sample), torch.arange(batch) % 10
    times, start, loss, goes_on = [], time.perf_counter(), 0.0, True
    while goes_on:
        begin = time.perf_counter()
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=os.environ.get("PRECISION") == "bf16"):
            value = F.nll_loss(model(x), target)
        value.backward()
        optimizer.step()
        times.append(time.perf_counter() - begin)
        loss = value.item()
        goes_on = len(times) < 5 or time.perf_counter() - start < seconds
        if ranks > 1:  # all ranks make the same number of steps
            go_on = torch.tensor(float(goes_on))
            dist.broadcast(go_on, 0)
            goes_on = bool(go_on)
    times = sorted(times[2:])
    return batch / times[len(times) // 2], sum(p.numel() for p in model.parameters()), loss


def be_rank(rank, ranks, name, batch, seconds, port):
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    torch.manual_seed(1)
    make, sample = MODELS[name]
    wrap = torch.nn.parallel.DistributedDataParallel
    speed, parameters, loss = train(make, sample, batch // ranks, seconds, wrap, ranks)
    if rank == 0:
        print(f"samples/s {ranks * speed:.1f} parameters {parameters} loss {loss:.4f}", flush=True)
    dist.destroy_process_group()


def main():
    name, batch, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]) if len(sys.argv) > 3 else 3.0
    ranks = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    if ranks > 1:
        mp.spawn(be_rank, args=(ranks, name, batch, seconds, 29500 + os.getpid() % 1000), nprocs=ranks)
        return
    torch.set_num_threads(1)
    torch.manual_seed(1)
    make, sample = MODELS[name]
    train(ConvNet, (1, 28, 28), 10, 0.0)  # loads PyTorch's code, which must not count as a step's memory
    before = memory_mib("VmRSS")
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # VmHWM is the peak from now on
    speed, parameters, loss = train(make, sample, batch, seconds)
    growth = memory_mib("VmHWM") - before
    print(f"samples/s {speed:.1f} parameters {parameters} memory_mib {growth:.1f} loss {loss:.4f}")


if __name__ == "__main__":
    main()
