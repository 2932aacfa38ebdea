"""Trains the default deck's ConvNet in PyTorch, for benchmarks/compare_pytorch.sh: Fashion-MNIST, global batch 128,
SGD 0.01 with momentum 0.5, one core a rank, images in memory as float32, no DataLoader.

usage: ddp_convnet.py RANKS EPOCHS FOLDER     (FOLDER holds the four Fashion-MNIST files, .gz)
Prints a line for each epoch: samples/s of training alone, loss, test accuracy.
"""
import gzip
import os
import struct
import sys
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from convnet import ConvNet
from torch.nn.parallel import DistributedDataParallel

GLOBAL_BATCH = 128


def read_idx(path):
    with gzip.open(path) as file:
        dims = struct.unpack(">I", file.read(4))[0] & 255
        shape = struct.unpack(f">{dims}I", file.read(4 * dims))
        return torch.from_numpy(np.frombuffer(file.read(), np.uint8).reshape(shape).copy())


def load(folder, split):
    images = read_idx(f"{folder}/{split}-images-idx3-ubyte.gz").float().div_(255).sub_(0.1307).div_(0.3081)
    return images.unsqueeze(1), read_idx(f"{folder}/{split}-labels-idx1-ubyte.gz").long()


def train(rank, ranks, epochs, folder, port):
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank % len(os.sched_getaffinity(0))]})
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    torch.manual_seed(1234)
    images, labels = load(folder, "train")
    test_images, test_labels = load(folder, "t10k")
    net = ConvNet()
    model = DistributedDataParallel(net) if ranks > 1 else net
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
    size = GLOBAL_BATCH // ranks
    for epoch in range(epochs):
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(epoch))[rank::ranks]
        net.train()
        dist.barrier()
        start, total, steps = time.perf_counter(), 0.0, 0
        for first in range(0, len(order) - size + 1, size):
            mine = order[first:first + size]
            optimizer.zero_grad()
            loss = F.nll_loss(model(images[mine]), labels[mine])
            loss.backward()
            optimizer.step()
            total += loss.item()
            steps += 1
        dist.barrier()
        seconds = time.perf_counter() - start
        if rank == 0:
            net.eval()
            with torch.no_grad():
                accuracy = (net(test_images).argmax(1) == test_labels).float().mean().item()
            print(f"samples/s {steps * size * ranks / seconds:.0f} loss {total / steps:.4f} accuracy {accuracy:.4f}",
                  flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    ranks, epochs, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    mp.spawn(train, args=(ranks, epochs, folder, 29500 + os.getpid() % 1000), nprocs=ranks)
