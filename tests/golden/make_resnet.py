"""Writes resnet.h5: one training step's forward and backward of ResNets by PyTorch, with torchvision's definition of the
networks (torchvision itself is not needed). Form and tolerances as ops.h5's (README.md).
make_resnet.py [resnet.h5]
Needs torch, numpy, h5py.

Element k of the i-th parameter is mean + a * noise(k + 2^22 i), noise a hash with variance 1: a = sqrt(2 / fan_out) for
convolutions, 0.02 for fc, else 0.1; mean = 1 for the weights of BatchNorm, else 0. Tests make the same numbers, so that the
file holds none. The images are noise, too.
"""
import sys

import h5py
import numpy as np
import torch
from torch import nn

DEPTHS = {18: (1, (2, 2, 2, 2)), 50: (4, (3, 4, 6, 3))}  # expansion, blocks
OUTPUTS = 10


class Block(nn.Module):
    def __init__(self, width_in, width, stride, expansion):
        super().__init__()
        sizes = [(3, stride), (3, 1)] if expansion == 1 else [(1, 1), (3, stride), (1, 1)]
        widths = [width_in] + [width] * (len(sizes) - 1) + [width * expansion]
        self.count = len(sizes)
        for i, (kernel, step) in enumerate(sizes):
            setattr(self, f"conv{i + 1}",
                    nn.Conv2d(widths[i], widths[i + 1], kernel, step, kernel // 2, bias=False))
            setattr(self, f"bn{i + 1}", nn.BatchNorm2d(widths[i + 1]))
        self.downsample = None
        if stride != 1 or width_in != width * expansion:
            self.downsample = nn.Sequential(nn.Conv2d(width_in, width * expansion, 1, stride, bias=False),
                                            nn.BatchNorm2d(width * expansion))

    def forward(self, x):
        y = x
        for i in range(1, self.count + 1):
            y = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y))
            if i < self.count:
                y = torch.relu(y)
        return torch.relu(y + (self.downsample(x) if self.downsample else x))


def resnet(depth):
    expansion, blocks = DEPTHS[depth]
    model = nn.Sequential()
    model.add_module("conv1", nn.Conv2d(3, 64, 7, 2, 3, bias=False))
    model.add_module("bn1", nn.BatchNorm2d(64))
    model.add_module("relu", nn.ReLU())
    model.add_module("maxpool", nn.MaxPool2d(3, 2, 1))
    channels, width = 64, 64
    for layer, count in enumerate(blocks):
        row = nn.Sequential()
        for b in range(count):
            row.append(Block(channels, width, 2 if b == 0 and layer > 0 else 1, expansion))
            channels = width * expansion
        model.add_module(f"layer{layer + 1}", row)
        width *= 2
    model.add_module("avgpool", nn.AdaptiveAvgPool2d(1))
    model.add_module("flatten", nn.Flatten())
    model.add_module("fc", nn.Linear(channels, OUTPUTS))
    return model


def noise(first, count):
    h = np.arange(first, first + count, dtype=np.uint32)
    for _ in range(2):
        h = (h ^ (h >> 16)) * np.uint32(0x45D9F3B)
    h ^= h >> 16
    return torch.from_numpy((h / 2.0**32 - 0.5) * 12**0.5)


def fill(model):
    for i, (name, p) in enumerate(model.named_parameters()):
        wave = noise(i << 22, p.numel()).reshape(p.shape)
        with torch.no_grad():
            if p.dim() == 4:
                p.copy_(wave * (2 / (p.shape[0] * p.shape[2] * p.shape[3])) ** 0.5)
            elif p.dim() == 2:
                p.copy_(0.02 * wave)
            else:
                p.copy_(0.1 * wave + (1 if name.endswith("weight") else 0))


def step(depth, dtype):
    torch.set_default_dtype(dtype)
    model = resnet(depth)
    fill(model)
    x = noise(0, 2 * 3 * 64 * 64).reshape(2, 3, 64, 64).to(dtype)
    logits = model(x)
    loss = nn.functional.cross_entropy(logits, torch.tensor([1, 7]))
    loss.backward()
    gradients = dict(model.named_parameters())
    last = "layer4.0.conv2.weight"
    return {"logits": logits.detach(), "loss": loss.detach(), "fc.bias": gradients["fc.bias"].grad,
            "conv1.weight": gradients["conv1.weight"].grad[:4],
            last: gradients[last].grad[:1, :16],
            "layer2.0.bn1.weight": gradients["layer2.0.bn1.weight"].grad}


torch.manual_seed(0)
with h5py.File(sys.argv[1] if len(sys.argv) > 1 else "resnet.h5", "w") as file:
    for depth in DEPTHS:
        exact, single = step(depth, torch.float64), step(depth, torch.float32)
        for name in exact:
            data = file.create_dataset(f"{depth}/{name}_f64", data=exact[name].numpy())
            difference = float((single[name].double() - exact[name]).abs().max())
            data.attrs["ref_max_abs"] = float(exact[name].abs().max())
            data.attrs["f32_max_abs_diff"] = data.attrs["f32alt_max_abs_diff"] = difference
