"""What a random case is, and random shapes and numbers."""

import math
import random

import torch


class Case:
    """One case as it is drawn: tensors with and without a gradient, options, PyTorch's function."""

    def __init__(self, operation, function, inputs, constants=None, numbers=None, levels=2):
        self.operation, self.function, self.levels = operation, function, levels
        self.inputs = inputs  # name: f64 tensor whose numbers are f32's
        self.constants = constants or {}  # floating ones take the case's dtype
        self.numbers = numbers or {}
        self.dtype = torch.float32
        self.slack = 0.0  # relative error that is PyTorch's own


class Draw:
    """Random shapes and numbers."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.generator = torch.Generator().manual_seed(seed % (1 << 62))

    def whole(self, low, high):
        return self.r.randint(low, high)

    def pick(self, *options):
        return self.r.choice(options)

    def chance(self, p):
        return self.r.random() < p

    def uniform(self, low, high):
        return self.r.uniform(low, high)

    def shape(self, low=1, high=4, extent=7, numel=400):
        while True:
            shape = [self.whole(1, extent) for _ in range(self.whole(low, high))]
            if math.prod(shape) <= numel:
                return shape

    def normal(self, shape, scale=1.0):
        x = torch.randn(shape, generator=self.generator, dtype=torch.float64) * scale
        return x.float().double()

    def tied(self, shape):
        """Small whole numbers and halves: many are equal, and many at kinks."""
        x = torch.randint(-8, 9, shape, generator=self.generator).double() / 2
        return x

    def wide(self, shape, low=-38, high=38):
        """Both signs, sizes over the powers of ten from low to high."""
        size = torch.rand(shape, generator=self.generator, dtype=torch.float64)
        x = torch.pow(10.0, low + (high - low) * size)
        sign = torch.randint(0, 2, shape, generator=self.generator).double() * 2 - 1
        return (x * sign).float().double()

    def any(self, shape, reach=20.0):
        """One of the kinds, or a row of them."""
        kind = self.whole(0, 5)
        if kind == 0:
            return self.tied(shape)
        if kind == 1:
            return self.normal(shape, self.uniform(0.01, reach))
        if kind == 2:
            return self.normal(shape, 0.001)
        if kind == 3:
            return self.wide(shape, -20, 1)
        return self.normal(shape)

    def positive(self, shape):
        return (self.any(shape, 5.0).abs() + self.pick(1e-6, 0.01, 1.0)).float().double()

    def indices(self, shape, count):
        return torch.randint(0, count, shape, generator=self.generator)


OPERATIONS = {}


def operation(*names):
    def enter(draw):
        for name in names:
            OPERATIONS[name] = draw
        return draw

    return enter
