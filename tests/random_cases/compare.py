#!/usr/bin/env python3
"""Random cases of Lockstep's operations against PyTorch's: outputs, gradients, second derivatives.

    build/release/tests/random_cases/random_cases is the other side, and needs no PyTorch.
    compare.py [--cases N] [--seed S] [--only OPERATION] [--program PATH]

A case is an operation with random shapes, options and numbers, in f32 or f64. Each result is held
against PyTorch's in f64, and in f32 it may be as far from it as PyTorch's own f32 result is. What
differs is printed by operation, with the case's number, from which --seed draws it again; where
PyTorch is not the measure, a case says why beside its own reference or slack. Exit code 1 if any
difference is found.
"""

import argparse
import collections
import io
import math
import pathlib
import subprocess
import sys

import elements
import layers  # noqa: F401: enters its operations
import numpy as np
import torch
from drawing import OPERATIONS, Draw

ROOT = pathlib.Path(__file__).resolve().parents[2]
DTYPES = {torch.float32: "f32", torch.float64: "f64", torch.int64: "i64", torch.bool: "bool"}
NUMPY = {"f32": np.float32, "f64": np.float64, "i64": np.int64, "bool": np.bool_}


# --- both sides -------------------------------------------------------------------------------
def draw_case(seed, number, only):
    d = Draw(seed * 1_000_003 + number)
    names = sorted(OPERATIONS) if not only else only
    name = names[number % len(names)]
    case = OPERATIONS[name](d, name)
    case.number, case.dtype = number, d.pick(torch.float32, torch.float64)
    case.generator = d.generator
    return case


def typed(tensor, dtype):
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


def values_of(case, dtype, extra):
    """PyTorch's results in `dtype`, in the order in which the program writes them."""
    inputs = {k: typed(t, dtype).clone().requires_grad_() for k, t in case.inputs.items()}
    v = inputs | {k: typed(t, dtype) for k, t in case.constants.items()}
    y = case.function(v)
    results = [y.detach()]
    if case.levels == 0:
        return results
    leaves = list(inputs.values())
    grad_out = extra(y.shape, "grad_out").to(dtype)
    first = torch.autograd.grad(y, leaves, grad_out, create_graph=case.levels > 1, allow_unused=True)
    zero = lambda gradients: [torch.zeros_like(x) if g is None else g.detach() for g, x in zip(gradients, leaves)]  # noqa: E731
    results += zero(first)
    if case.levels == 1:
        return results
    results += zero(first)
    total = 0
    for i, g in enumerate(first):
        if g is not None and g.requires_grad:
            total = total + (g * extra(g.shape, f"direction_{i}").to(dtype)).sum()
    if torch.is_tensor(total) and total.requires_grad:
        results += zero(torch.autograd.grad(total, leaves, allow_unused=True))
    else:
        results += zero([None] * len(leaves))
    return results


def evaluate(case):
    kept = {}

    def extra(shape, name):
        if name not in kept:
            kept[name] = torch.randn(shape, generator=case.generator, dtype=torch.float64).float().double()
        return kept[name]

    case.exact = values_of(case, torch.float64, extra)
    case.own = values_of(case, case.dtype, extra) if case.dtype != torch.float64 else case.exact
    case.constants |= kept


def message(case):
    def text(value):
        values = value if isinstance(value, (list, tuple)) else [value]
        return ",".join(repr(float(x)) for x in values)

    numbers = case.numbers | {"levels": case.levels}
    parts = [(" ".join([case.operation] + [f"{k}={text(v)}" for k, v in numbers.items()]) + "\n").encode()]
    tensors = case.inputs | {f"const_{k}": v for k, v in case.constants.items()}
    parts.append(f"{len(tensors)}\n".encode())
    for name, tensor in tensors.items():
        t = typed(tensor, case.dtype).detach().contiguous()
        line = " ".join([name, DTYPES[t.dtype], *map(str, t.shape)])
        parts += [(line + "\n").encode(), t.numpy().tobytes()]
    return b"".join(parts)


def read_results(stream):
    line = stream.readline().decode().rstrip("\n")
    if not line.startswith("ok "):
        return line
    results = []
    for _ in range(int(line[3:])):
        dtype, *extents = stream.readline().decode().split()
        shape = [int(e) for e in extents]
        dtype = np.dtype(NUMPY[dtype])
        data = stream.read(math.prod(shape) * dtype.itemsize)
        results.append(np.frombuffer(data, dtype).reshape(shape))
    return results


def label(case, index):
    names = list(case.inputs)
    if index == 0:
        return "output"
    kind, which = divmod(index - 1, len(names))
    return ["gradient of ", "recorded gradient of ", "second derivative by "][kind] + names[which]


ELEMENTWISE = set(elements.PLAIN) | set(elements.POSITIVE) | {"gelu", "elu", "celu", "softplus", "leaky_relu", "prelu", "clamp", "hardtanh",
                                            "div_number", "mul_number", "number_div"}  # fmt: skip


FROM_RESULT = {"tanh", "sigmoid"}  # their gradients are, as PyTorch's, worked out from the rounded result


def difference(case, found, exact, own, index):
    """None, or where and how far found is from PyTorch's. Of functions of elements, f32 values and gradients are held
    against f64's element by element; all else relative to the largest element, and to a share of the case's largest.
    f32 may be 16 times as far from f64's result as PyTorch's f32 is."""
    if found.shape != exact.shape:
        return f"shape {list(found.shape)} and not {list(exact.shape)}"
    if found.size == 0:
        return None
    narrow = case.dtype == torch.float32
    unit, most, least = (1.2e-7, np.finfo(np.float32).max, 1e-37) if narrow else (2.3e-16, np.inf, 1e-300)
    each = narrow and case.operation in ELEMENTWISE and index <= (0 if case.operation in FROM_RESULT else len(case.inputs))

    def largest(a):
        return np.max(np.abs(a), where=np.isfinite(a), initial=0)

    with np.errstate(all="ignore"):
        found, exact, own = (a.astype(np.float64) for a in (found, exact, own))
        exact = np.where(np.abs(exact) > most, np.sign(exact) * np.inf, exact)
        agree = (found == exact) | (found == own) | (np.isnan(found) & (np.isnan(exact) | np.isnan(own)))
        error, theirs = np.abs(found - exact), np.abs(own - exact)
        if each:
            scale = np.abs(exact)
        else:
            others = [t.numpy(force=True) for t in [*case.exact, *case.inputs.values()]]
            scale = max(largest(exact), (1e-3 if narrow else 0.1) * max(map(largest, others)))
            theirs = largest(theirs)
        factor = (64 if narrow else 4096) * (1 if index == 0 else 8)
        theirs = np.where(np.isfinite(theirs), theirs, 0)
        wrong = ~agree & ~(error <= (factor * unit + case.slack) * scale + 16 * theirs + least)
    if not wrong.any():
        return None
    at = np.unravel_index(np.argmax(np.where(wrong, np.where(np.isnan(error), np.inf, error), -1)), error.shape)
    return f"{found[at]:.9g} and not {exact[at]:.9g} (PyTorch in its dtype: {own[at]:.9g}) at {list(map(int, at))}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", choices=sorted(OPERATIONS))
    parser.add_argument("--show", type=int, default=3, help="differences shown of each operation")
    parser.add_argument("--program", default=str(ROOT / "build/release/tests/random_cases/random_cases"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)

    count, bad, tensors = collections.Counter(), collections.defaultdict(list), 0
    for begin in range(0, options.cases, 1000):
        cases = [draw_case(options.seed, k, options.only) for k in range(begin, min(begin + 1000, options.cases))]
        for case in cases:
            evaluate(case)
        done = subprocess.run([options.program], input=b"".join(map(message, cases)), stdout=subprocess.PIPE, check=True)
        stream = io.BytesIO(done.stdout)
        for case in cases:
            results = read_results(stream)
            count[case.operation] += 1
            if isinstance(results, str):
                bad[case.operation].append((case, "-", results))
                continue
            if len(results) != len(case.exact):
                bad[case.operation].append((case, "-", f"{len(results)} results and not {len(case.exact)}"))
                continue
            for i, (found, exact, own) in enumerate(zip(results, case.exact, case.own)):
                tensors += 1
                what = difference(case, found, exact.numpy(force=True), own.numpy(force=True), i)
                if what is None:
                    continue
                bad[case.operation].append((case, label(case, i), what))
                break
    for name in sorted(bad):
        print(f"{name}: {len(bad[name])} of {count[name]} cases differ")
        for case, which, what in bad[name][: options.show]:
            shapes = {k: list(t.shape) for k, t in case.inputs.items()}
            print(f"  case {case.number}, {DTYPES[case.dtype]}, {shapes}, {case.numbers}\n    {which}: {what}")
    wrong = sum(map(len, bad.values()))
    print(f"{sum(count.values())} cases of {len(count)} operations, {tensors} tensors: {wrong} differences")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
