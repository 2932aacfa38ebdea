"""Functions of elements, reductions and orders."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from drawing import Case, operation

# --- functions of one element -----------------------------------------------------------------
PLAIN = {
    "abs": torch.abs, "exp": torch.exp, "sin": torch.sin, "cos": torch.cos, "erf": torch.erf,
    "erfc": torch.erfc, "relu": F.relu, "silu": F.silu, "sigmoid": torch.sigmoid,
    "tanh": torch.tanh, "selu": F.selu, "softsign": F.softsign, "relu6": F.relu6,
    "hardsigmoid": F.hardsigmoid, "hardswish": F.hardswish, "mish": F.mish,
    "logsigmoid": F.logsigmoid,
}  # fmt: skip
POSITIVE = {
    "log": torch.log, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "reciprocal": torch.reciprocal,
}  # fmt: skip


@operation(*PLAIN)
def plain(d, name):
    case = Case(name, lambda v: PLAIN[name](v["x"]), {"x": d.any(d.shape())})
    if name == "hardsigmoid":  # PyTorch has no second derivative of it, and a float for a sixth
        case.levels, case.slack = 1, 4e-8
    return case


@operation(*POSITIVE)
def of_positive(d, name):
    return Case(name, lambda v: POSITIVE[name](v["x"]), {"x": d.positive(d.shape())})


@operation("gelu")
def gelu(d, name):
    tanh = d.chance(0.3)

    def function(v):
        if tanh:
            u = 2 * math.sqrt(2 / math.pi) * (v["x"] + 0.044715 * v["x"] ** 3)
            return v["x"] * torch.sigmoid(u)
        return 0.5 * v["x"] * torch.erfc(v["x"] * -math.sqrt(0.5))  # PyTorch's 1 + erf and 1 + tanh have no tails

    return Case(name, function, {"x": d.any(d.shape(), 5.0)}, numbers={"tanh": tanh})


@operation("add_number", "mul_number", "div_number", "number_div")
def with_number(d, name):
    number = float(np.float32(d.pick(d.whole(1, 99), d.uniform(-3, 3), 10 ** d.uniform(-20, 20))))
    number = number or 1.0
    x = d.positive(d.shape()) if name == "number_div" else d.any(d.shape())
    functions = {
        "add_number": lambda v: v["x"] + number, "mul_number": lambda v: v["x"] * number,
        "div_number": lambda v: v["x"] / number, "number_div": lambda v: number / v["x"],
    }  # fmt: skip
    return Case(name, functions[name], {"x": x}, numbers={"number": number})


@operation("pow")
def power(d, name):
    p = d.pick(0.0, 1.0, 2.0, 3.0, -1.0, -2.0, 0.5, 1.5, 2.7)
    x = d.normal(d.shape(), 2.0) if p == int(p) and p >= 0 else d.positive(d.shape())
    return Case(name, lambda v: torch.pow(v["x"], p), {"x": x}, numbers={"p": p})


@operation("clamp", "hardtanh")
def clamps(d, name):
    low, high = sorted(d.pick((-1.0, 1.0), (0.0, 6.0), (-2.0, 0.5), (-3.0, 2.5)))
    if name == "clamp":
        low, high = (d.pick(low, -math.inf), d.pick(high, math.inf))
    function = torch.clamp if name == "clamp" else F.hardtanh
    return Case(name, lambda v: function(v["x"], low, high), {"x": d.any(d.shape(), 3.0)},
                numbers={"min": low, "max": high})  # fmt: skip


@operation("leaky_relu")
def leaky(d, name):
    slope = d.pick(0.01, 0.5, 0.0)
    return Case(name, lambda v: F.leaky_relu(v["x"], slope), {"x": d.any(d.shape())},
                numbers={"slope": slope})  # fmt: skip


@operation("elu", "celu")
def elus(d, name):
    alpha = d.pick(1.0, 0.5, 2.0)
    function = F.elu if name == "elu" else F.celu
    return Case(name, lambda v: function(v["x"], alpha), {"x": d.any(d.shape())},
                numbers={"alpha": alpha})  # fmt: skip


@operation("softplus")
def softplus(d, name):
    beta, threshold = d.pick(1.0, 0.5, 3.0), d.pick(20.0, 2.0)
    return Case(name, lambda v: F.softplus(v["x"], beta, threshold), {"x": d.any(d.shape())},
                numbers={"beta": beta, "threshold": threshold})  # fmt: skip


@operation("prelu")
def prelu(d, name):
    shape = d.shape(2)
    return Case(name, lambda v: F.prelu(v["x"], v["weight"]),
                {"x": d.any(shape), "weight": d.normal([d.pick(1, shape[1])])})  # fmt: skip


# --- functions of two elements ----------------------------------------------------------------
def broadcast(d):
    shape = d.shape()
    a = [1 if d.chance(0.2) else n for n in shape]
    b = [1 if d.chance(0.2) and a[i] != 1 else n for i, n in enumerate(shape)]
    cut = d.whole(0, len(shape)) if d.chance(0.3) else 0
    return (a, b[cut:]) if d.chance(0.5) else (b[cut:], a)


@operation("add", "sub", "mul", "div", "atan2")
def two(d, name):
    a, b = broadcast(d)
    function = getattr(torch, name)
    second = d.normal(b)
    if name == "div":
        second = second + torch.sign(second) * 0.1
    return Case(name, lambda v: function(v["a"], v["b"]),
                {"a": d.any(a, 3.0) if name != "atan2" else d.pick(d.normal, d.tied)(a),
                 "b": second.float().double()})  # fmt: skip


@operation("where")
def where(d, name):
    a, b = broadcast(d)
    condition = torch.rand(torch.broadcast_shapes(a, b), generator=d.generator) < 0.5
    return Case(name, lambda v: torch.where(v["condition"], v["a"], v["b"]),
                {"a": d.normal(a), "b": d.normal(b)}, {"condition": condition})  # fmt: skip


@operation("masked_fill")
def masked_fill(d, name):
    shape = d.shape()
    mask = torch.rand([1 if d.chance(0.3) else n for n in shape], generator=d.generator) < 0.4
    return Case(name, lambda v: v["x"].masked_fill(v["mask"], -2.5), {"x": d.normal(shape)},
                {"mask": mask}, {"value": -2.5})  # fmt: skip


@operation("matmul")
def matmul(d, name):
    m, k, n = d.whole(1, 9), d.whole(1, 30), d.whole(1, 9)
    if d.chance(0.5):
        a, b = [m, k], [k, n]
    else:
        batch = d.whole(1, 4)
        a, b = [batch, m, k], [batch, k, n]
    return Case(name, lambda v: torch.matmul(v["a"], v["b"]),
                {"a": d.normal(a), "b": d.normal(b)})  # fmt: skip


@operation("cosine_similarity")
def cosine(d, name):
    a, b = broadcast(d)
    rank = max(len(a), len(b))
    dim, eps = d.whole(0, rank - 1), d.pick(1e-8, 0.5)
    scale = d.pick(1.0, 1.0, 1e-3, 1e8)
    if any(len(s) < rank - dim or s[dim - rank] == 1 for s in (a, b)):  # gradients are rounding alone
        return cosine(d, name)
    return Case(name, lambda v: F.cosine_similarity(v["a"], v["b"], dim, eps),
                {"a": d.normal(a, scale), "b": d.normal(b)},
                numbers={"dim": dim, "eps": eps})  # fmt: skip


@operation("pairwise_distance")
def pairwise(d, name):
    shape = [*d.shape(1, 2), d.whole(2, 7)]
    p, keepdim = d.pick(1.0, 2.0, 3.0, 1.5, math.inf), d.chance(0.5)
    eps = 1e-6
    return Case(name, lambda v: F.pairwise_distance(v["a"], v["b"], p, eps, keepdim),
                {"a": d.normal(shape), "b": d.normal(shape)},
                numbers={"p": p, "eps": eps, "keepdim": keepdim})  # fmt: skip


@operation("normalize")
def normalize(d, name):
    shape = d.shape()
    p, dim = d.pick(1.0, 2.0, 3.0, math.inf), d.whole(0, len(shape) - 1)
    x = d.normal(shape)
    if shape[dim] == 1:
        return normalize(d, name)
    if d.chance(0.3):
        x = x * 0
    return Case(name, lambda v: F.normalize(v["x"], p, dim, 1e-12), {"x": x},
                numbers={"p": p, "dim": dim, "eps": 1e-12}, levels=1 if (x == 0).all() else 2)  # fmt: skip


# --- reductions and orders --------------------------------------------------------------------
def some_dims(d, shape):
    return sorted(d.r.sample(range(len(shape)), d.whole(1, len(shape))))


@operation("sum", "mean", "amax", "prod")
def reductions(d, name):
    shape = d.shape()
    dims, keepdim = some_dims(d, shape), d.chance(0.5)
    x = d.tied(shape) if d.chance(0.4) else d.normal(shape)

    def function(v):
        if name != "prod":
            return getattr(torch, name)(v["x"], dims, keepdim)
        y = v["x"]
        for dim in reversed(dims):
            y = torch.prod(y, dim, keepdim)
        return y

    if name == "prod":
        x = x.clamp(-2, 2) if x.numel() < 60 else 1 + 0.1 * x
    return Case(name, function, {"x": x.float().double()}, numbers={"dims": dims, "keepdim": keepdim})


@operation("norm")
def norms(d, name):
    shape = d.shape()
    dims, keepdim = some_dims(d, shape), d.chance(0.5)
    p = d.pick(0.0, 0.5, 1.0, 1.5, 2.0, 2.0, 3.0, math.inf, -math.inf, -1.0)
    x = d.tied(shape) if d.chance(0.3) else d.normal(shape, d.pick(1.0, 1e-3, 1e6))
    smooth = bool((x != 0).all()) or p in (0.0, 1.0, 2.0)
    if d.chance(0.1):
        x, smooth = x * 0, False
    if math.prod(shape[i] for i in dims) == 1:  # |x|: PyTorch's second derivative is a rounding error
        smooth = False
    return Case(name, lambda v: torch.linalg.vector_norm(v["x"], p, dims, keepdim), {"x": x},
                numbers={"p": p, "dims": dims, "keepdim": keepdim},
                levels=(2 if smooth else 1) if p != 0.0 else 0)  # fmt: skip


@operation("var", "std")
def spread(d, name):
    shape = d.shape()
    dims, keepdim = some_dims(d, shape), d.chance(0.5)
    correction = d.pick(1, 0, 1, 2)
    count = math.prod(shape[i] for i in dims)
    return Case(name, lambda v: getattr(torch, name)(v["x"], dims, correction=correction, keepdim=keepdim),
                {"x": d.normal(shape) + d.pick(0.0, 3.0)},
                numbers={"dims": dims, "keepdim": keepdim, "correction": correction},
                levels=2 if count > correction and count > 2 else 0)  # fmt: skip


@operation("max", "argmax")
def maxima(d, name):
    shape = d.shape()
    dim, keepdim = d.whole(-len(shape), len(shape) - 1), d.chance(0.5)
    x = d.tied(shape)
    if name == "argmax":
        function = lambda v: torch.argmax(v["x"], dim, keepdim).double()  # noqa: E731
    else:
        function = lambda v: torch.max(v["x"], dim, keepdim).values  # noqa: E731
    return Case(name, function, {"x": x}, numbers={"dim": dim, "keepdim": keepdim},
                levels=0 if name == "argmax" else 2)  # fmt: skip


@operation("sort")
def sort(d, name):
    shape = d.shape()
    dim, descending = d.whole(0, len(shape) - 1), d.chance(0.5)
    function = lambda v: torch.sort(v["x"], dim=dim, descending=descending, stable=True).values  # noqa: E731
    return Case(name, function, {"x": d.tied(shape)}, numbers={"dim": dim, "descending": descending})


@operation("softmax", "log_softmax", "cumsum", "glu", "logsumexp")
def along(d, name):
    shape = d.shape()
    dim = d.whole(0, len(shape) - 1)
    if name == "glu":
        shape[dim] = 2 * d.whole(1, 4)
    keepdim = d.chance(0.5)
    functions = {
        "softmax": lambda v: torch.softmax(v["x"], dim),
        "log_softmax": lambda v: torch.log_softmax(v["x"], dim),
        "cumsum": lambda v: torch.cumsum(v["x"], dim), "glu": lambda v: F.glu(v["x"], dim),
        "logsumexp": lambda v: torch.logsumexp(v["x"], dim, keepdim),
    }  # fmt: skip
    return Case(name, functions[name], {"x": d.normal(shape, d.pick(1.0, 10.0))},
                numbers={"dim": dim, "keepdim": keepdim})  # fmt: skip


@operation("gather")
def gather(d, name):
    shape = d.shape()
    dim = d.whole(0, len(shape) - 1)
    wanted = list(shape)
    wanted[dim] = d.whole(1, 5)
    return Case(name, lambda v: torch.gather(v["x"], dim, v["index"]), {"x": d.normal(shape)},
                {"index": d.indices(wanted, shape[dim])}, {"dim": dim})  # fmt: skip
