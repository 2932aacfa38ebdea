"""Writes adan.h5: trajectories of Adan (Xie, Zhou, Li, Lin, Yan 2022, arXiv:2208.06677, algorithm 1), which PyTorch does not have.
Form and tolerances as optim.h5's (README.md).
make_adan.py [adan.h5]
Needs numpy, h5py.

The paper's betas are b = 1 - beta of the options. The bias corrections divide each running mean by the sum of the weights
that it has given out, which is worked out here as such a sum and not by its formula.
"""
import sys

import h5py
import numpy as np

STEPS = 12
SHAPES = {"b": (7,), "w1": (5, 4), "w2": (3, 2, 4)}


class Mean:
    """A running mean whose newest number weighs b, over the sum of all weights: the corrected one."""

    def __init__(self, like, b):
        self.b, self.sum, self.weight = b, np.zeros_like(like), like.dtype.type(0)

    def see(self, x):
        keep = self.sum.dtype.type(1 - self.b)
        self.sum = keep * self.sum + self.sum.dtype.type(self.b) * x
        self.weight = keep * self.weight + self.sum.dtype.type(self.b)

    def corrected(self):
        return self.sum / self.weight


def adan(start, gradients, case, dtype):
    """The parameter after each step, and the state after the last."""
    number = np.dtype(dtype).type
    b1, b2, b3 = (1 - beta for beta in case["betas"])
    lr, eps, decay = (number(case.get(key, 0.0)) for key in ("lr", "eps", "weight_decay"))
    p, before, rows = start.astype(dtype), None, []
    first, change, square = Mean(p, b1), Mean(p, b2), Mean(p, b3)
    for g in gradients.astype(dtype):
        d = np.zeros_like(g) if before is None else g - before
        before = g
        first.see(g)
        change.see(d)
        square.see((g + number(1 - b2) * d) ** 2)
        eta = lr / (np.sqrt(square.corrected()) + eps)
        move = eta * (first.corrected() + number(1 - b2) * change.corrected())
        if case.get("no_prox"):
            p = p - lr * decay * p - move
        else:
            p = (p - move) / (1 + lr * decay)
        rows.append(p)
    state = {"exp_avg": first.sum, "exp_avg_diff": change.sum, "exp_avg_sq": square.sum, "previous_grad": before}
    return np.stack(rows), state


def write(group, name, reference, single):
    data = group.create_dataset(name, data=reference)
    data.attrs["ref_max_abs"] = np.abs(reference).max()
    data.attrs["f32_max_abs_diff"] = np.float64(np.abs(single - reference).max())
    data.attrs["f32alt_max_abs_diff"] = data.attrs["f32_max_abs_diff"]


CASES = {
    "adan_default": {"lr": 0.02, "betas": [0.98, 0.92, 0.99], "eps": 1e-8},
    "adan_decay": {"lr": 0.02, "betas": [0.98, 0.92, 0.99], "eps": 1e-8, "weight_decay": 0.1},
    "adan_no_prox": {"lr": 0.02, "betas": [0.98, 0.92, 0.99], "eps": 1e-8, "weight_decay": 0.1, "no_prox": 1},
    "adan_other_betas": {"lr": 0.1, "betas": [0.9, 0.75, 0.95], "eps": 1e-8},
    "adan_large_eps": {"lr": 0.1, "betas": [0.9, 0.5, 0.8], "eps": 0.5, "weight_decay": 0.01},
}

random = np.random.default_rng(20261126)
with h5py.File(sys.argv[1] if len(sys.argv) > 1 else "adan.h5", "w", libver="earliest") as file:
    init = {k: random.standard_normal(shape).astype(np.float32) for k, shape in SHAPES.items()}
    grads = {k: random.standard_normal((STEPS, *shape)).astype(np.float32) for k, shape in SHAPES.items()}
    grads["w1"][:, 0, 0] = 0.0
    for k in SHAPES:
        file.create_dataset(f"common/init/{k}", data=init[k])
        file.create_dataset(f"common/grads/{k}", data=grads[k])
    for name, case in CASES.items():
        group = file.create_group(name)
        group.attrs["algorithm"] = np.bytes_("Adan")
        for key, value in case.items():
            group.attrs[key] = np.float64(value)
        for k in SHAPES:
            exact, state = adan(init[k], grads[k], case, np.float64)
            single, state_single = adan(init[k], grads[k], case, np.float32)
            write(group, f"{k}_f64", exact, single)
            for slot, value in state.items():
                write(group, f"state/{k}.{slot}_f64", value, state_single[slot])
