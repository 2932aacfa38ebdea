"""Convolutions, pools, layers and losses."""

import math

import torch
import torch.nn.functional as F

from drawing import Case, operation

# --- convolutions and pools -------------------------------------------------------------------
@operation("conv1d", "conv2d", "conv3d")
def convolution(d, name):
    n = int(name[4])
    groups = d.pick(1, 1, 2, 3)
    c, o = groups * d.whole(1, 3), groups * d.whole(1, 3)
    if d.chance(0.1):
        c, o, groups = 16, 16, d.pick(1, 16)
    kernel = [d.whole(1, 3) for _ in range(n)]
    stride, dilation = [d.whole(1, 3) for _ in range(n)], [d.whole(1, 2) for _ in range(n)]
    padding = [d.whole(0, 2) for _ in range(n)]
    room = [dilation[i] * (kernel[i] - 1) + 1 - 2 * padding[i] for i in range(n)]
    extent = [max(1, room[i]) + d.whole(0, 3) for i in range(n)]
    inputs = {"x": d.normal([d.whole(1, 3), c, *extent]), "weight": d.normal([o, c // groups, *kernel])}
    if d.chance(0.5):
        inputs["bias"] = d.normal([o])
    function = getattr(F, name)
    return Case(name, lambda v: function(v["x"], v["weight"], v.get("bias"), stride, padding, dilation, groups),
                inputs, numbers={"stride": stride, "padding": padding, "dilation": dilation, "groups": groups})  # fmt: skip


@operation("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def transposed(d, name):
    n = int(name[14])
    groups = d.pick(1, 1, 2)
    c, o = groups * d.whole(1, 3), groups * d.whole(1, 3)
    if d.chance(0.1):
        c, o, groups = 16, 16, 1
    kernel = [d.whole(1, 3) for _ in range(n)]
    stride, dilation = [d.whole(1, 3) for _ in range(n)], [d.whole(1, 3) for _ in range(n)]
    output_padding = [d.whole(0, max(stride[i], dilation[i]) - 1) for i in range(n)]
    extent = [d.whole(1, 4) for _ in range(n)]
    padding = []
    for i in range(n):
        size = (extent[i] - 1) * stride[i] + dilation[i] * (kernel[i] - 1) + output_padding[i] + 1
        padding.append(d.whole(0, min(2, (size - 1) // 2)))
    inputs = {"x": d.normal([d.whole(1, 2), c, *extent]), "weight": d.normal([c, o // groups, *kernel])}
    if d.chance(0.5):
        inputs["bias"] = d.normal([o])
    function = getattr(F, name)
    return Case(name, lambda v: function(v["x"], v["weight"], v.get("bias"), stride, padding, output_padding, groups, dilation),
                inputs, numbers={"stride": stride, "padding": padding, "output_padding": output_padding,
                                 "dilation": dilation, "groups": groups})  # fmt: skip


def window(d, n):
    kernel = [d.whole(1, 3) for _ in range(n)]
    return {
        "kernel": kernel, "stride": [d.whole(1, 3) for _ in range(n)],
        "padding": [d.whole(0, k // 2) for k in kernel], "ceil_mode": d.chance(0.3),
    }, [d.whole(k, k + 4) for k in kernel]  # fmt: skip


@operation("max_pool1d", "max_pool2d", "max_pool3d")
def max_pool(d, name):
    w, extent = window(d, int(name[8]))
    shape = [d.whole(1, 2), d.whole(1, 3), *extent]
    x = d.tied(shape) if d.chance(0.5) else d.normal(shape)
    function = getattr(F, name)
    return Case(name, lambda v: function(v["x"], w["kernel"], w["stride"], w["padding"], ceil_mode=w["ceil_mode"]),
                {"x": x}, numbers=w)  # fmt: skip


@operation("avg_pool1d", "avg_pool2d", "avg_pool3d")
def avg_pool(d, name):
    n = int(name[8])
    w, extent = window(d, n)
    w["count_include_pad"] = d.chance(0.5)
    w["divisor"] = d.pick(0, 0, 3) if n > 1 else 0
    x = d.normal([d.whole(1, 2), d.whole(1, 3), *extent])
    function = getattr(F, name)
    more = {"divisor_override": w["divisor"] or None} if n > 1 else {}
    return Case(name, lambda v: function(v["x"], w["kernel"], w["stride"], w["padding"], w["ceil_mode"],
                                         w["count_include_pad"], **more), {"x": x}, numbers=w)  # fmt: skip


@operation("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
           "adaptive_max_pool2d")  # fmt: skip
def adaptive(d, name):
    n = int(name[-2])
    size = [d.whole(1, 5) for _ in range(n)]
    x = d.normal([d.whole(1, 2), d.whole(1, 3), *[d.whole(1, 6) for _ in range(n)]])
    function = getattr(F, name)
    return Case(name, lambda v: function(v["x"], size), {"x": x}, numbers={"size": size})


MODES = ["nearest", "linear", "bilinear"]


def nearest_by(x, factors):
    for i, factor in enumerate(factors):
        n = x.shape[i + 2]
        m = int(n * factor)
        ratio = 1.0 if m == n else 0.5 if m == 2 * n else 1 / factor
        place = (torch.arange(m, dtype=torch.float32) * torch.tensor(ratio, dtype=torch.float32)).long()
        x = x.index_select(i + 2, place.clamp(max=n - 1))
    return x


@operation("interpolate", "interpolate_by")
def interpolate(d, name):
    mode = d.whole(0, 2)
    n = d.whole(1, 3) if mode == 0 else mode
    extent = [d.whole(1, 5) for _ in range(n)]
    align = mode > 0 and d.chance(0.5)
    x = d.normal([d.whole(1, 2), d.whole(1, 3), *extent])
    torch_align = {"align_corners": align} if mode > 0 else {}
    numbers = {"mode": mode, "align_corners": align}
    if name == "interpolate":
        numbers["size"] = [d.whole(1, 8) for _ in range(n)]
        function = lambda v: F.interpolate(v["x"], size=numbers["size"], mode=MODES[mode], **torch_align)  # noqa: E731
    else:
        factors = [d.pick(1.0, 1.274, 2.0, 1.5, 0.75, 3.0, d.uniform(1, 3)) for _ in range(n)]
        factors = [f if extent[i] * f >= 1 else 1.0 for i, f in enumerate(factors)]
        numbers["factors"] = factors
        function = lambda v: F.interpolate(v["x"], scale_factor=factors, mode=MODES[mode], **torch_align)  # noqa: E731
    if name == "interpolate_by" and mode == 0:  # PyTorch's forward in 1-D and 3-D differs from 2-D and from its own gradient
        function = lambda v: nearest_by(v["x"], factors)  # noqa: E731
    return Case(name, function, {"x": x}, numbers=numbers)


@operation("pad")
def pad(d, name):
    mode = d.whole(0, 3)
    n = d.whole(1, 2)
    extent = [d.whole(2, 5) for _ in range(n)]
    amounts = []
    for size in reversed(extent):
        low = -1 if mode == 0 else 0
        high = size - 1 if mode == 1 else (size if mode == 3 else 3)
        amounts += [d.whole(low, high), d.whole(0, high)]
    value = 1.5 if mode == 0 else 0.0
    names = ["constant", "reflect", "replicate", "circular"]
    function = lambda v: F.pad(v["x"], amounts, names[mode], *([value] if mode == 0 else []))  # noqa: E731
    return Case(name, function, {"x": d.normal([2, 2, *extent])},
                numbers={"mode": mode, "amounts": amounts, "value": value})  # fmt: skip


@operation("pixel_shuffle")
def pixel_shuffle(d, name):
    r = d.whole(1, 3)
    x = d.normal([d.whole(1, 2), r * r * d.whole(1, 2), d.whole(1, 4), d.whole(1, 4)])
    return Case(name, lambda v: F.pixel_shuffle(v["x"], r), {"x": x}, numbers={"factor": r})


# --- layers -----------------------------------------------------------------------------------
@operation("linear")
def linear(d, name):
    rows, i, o = d.shape(1, 3), d.whole(1, 20), d.whole(1, 9)
    inputs = {"x": d.normal([*rows, i]), "weight": d.normal([o, i])}
    if d.chance(0.7):
        inputs["bias"] = d.normal([o])
    return Case(name, lambda v: F.linear(v["x"], v["weight"], v.get("bias")), inputs)


@operation("layer_norm", "rms_norm")
def layer_norm(d, name):
    width = d.whole(2, 40)
    shape, eps = [*d.shape(1, 2), width], d.pick(1e-5, 1e-3)
    inputs = {"x": d.normal(shape) + d.pick(0.0, 2.0), "weight": d.normal([width])}
    if name == "rms_norm":
        return Case(name, lambda v: F.rms_norm(v["x"], [width], v["weight"], eps), inputs, numbers={"eps": eps})
    inputs["bias"] = d.normal([width])
    return Case(name, lambda v: F.layer_norm(v["x"], [width], v["weight"], v["bias"], eps), inputs,
                numbers={"eps": eps})  # fmt: skip


@operation("group_norm", "instance_norm", "batch_norm")
def channel_norms(d, name):
    groups = d.whole(1, 3)
    c = groups * d.whole(1, 3)
    shape = [d.whole(2, 4), c, *[d.whole(2, 4) for _ in range(d.whole(1, 2))]]
    eps = d.pick(1e-5, 1e-2)
    inputs = {"x": d.normal(shape)}
    inputs |= {"weight": d.normal([c]), "bias": d.normal([c])}
    numbers = {"eps": eps, "groups": groups}
    if name == "group_norm":
        return Case(name, lambda v: F.group_norm(v["x"], groups, v["weight"], v["bias"], eps), inputs, numbers=numbers)
    if name == "instance_norm":
        return Case(name, lambda v: F.instance_norm(v["x"], None, None, v["weight"], v["bias"], eps=eps), inputs, numbers=numbers)
    training = d.chance(0.6)
    numbers["training"] = training
    return Case(name, lambda v: F.batch_norm(v["x"], v["mean"].clone(), v["var"].clone(), v["weight"], v["bias"], training, 0.1, eps),
                inputs, {"mean": d.normal([c]), "var": d.positive([c])}, numbers)  # fmt: skip


@operation("local_response_norm")
def response(d, name):
    size, alpha, beta, k = d.whole(1, 4), d.pick(1e-4, 0.1), d.pick(0.75, 0.5), d.pick(1.0, 2.0)
    x = d.normal([d.whole(1, 2), d.whole(2, 6), d.whole(1, 4), d.whole(1, 4)])
    return Case(name, lambda v: F.local_response_norm(v["x"], size, alpha, beta, k), {"x": x},
                numbers={"size": size, "alpha": alpha, "beta": beta, "k": k})  # fmt: skip


@operation("attention")
def attention(d, name):
    b, h, t, width = d.whole(1, 2), d.whole(1, 3), d.whole(1, 6), d.whole(1, 8)
    causal = d.chance(0.5)
    s = t if causal else d.whole(1, 6)
    inputs = {"q": d.normal([b, h, t, width]), "k": d.normal([b, h, s, width]), "v": d.normal([b, h, s, width])}

    def function(v):
        scores = v["q"] @ v["k"].transpose(-1, -2) / math.sqrt(width)
        if causal:
            scores = scores.masked_fill(torch.ones(t, s, dtype=torch.bool).triu(1), -math.inf)
        return torch.softmax(scores, -1) @ v["v"]

    return Case(name, function, inputs, numbers={"causal": causal})


# --- losses -----------------------------------------------------------------------------------
REDUCTIONS = ["none", "mean", "sum"]


@operation("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
def regression(d, name):
    shape, reduction = d.shape(), d.whole(0, 2)
    x = d.pick(d.tied, d.normal)(shape)
    number = d.pick(1.0, 0.5, 2.0)
    more = {"smooth_l1_loss": {"beta": number}, "huber_loss": {"delta": number}}.get(name, {})
    function = getattr(F, name)
    return Case(name, lambda v: function(v["x"], v["t"], reduction=REDUCTIONS[reduction], **more), {"x": x},
                {"t": d.pick(d.tied, d.normal)(shape)}, {"reduction": reduction, "beta": number, "delta": number})  # fmt: skip


@operation("bce_with_logits", "bce")
def bce(d, name):
    shape, reduction = d.shape(), d.whole(0, 2)
    target = torch.rand(shape, generator=d.generator)
    target = (target.round() if d.chance(0.5) else target).double()
    x = d.any(shape, 10.0)
    constants = {"t": target}
    if d.chance(0.5):
        constants["weight"] = d.normal(d.pick(shape, shape[-1:])).abs()
    if name == "bce_with_logits" and d.chance(0.5):
        constants["pos_weight"] = d.normal(shape[-1:]).abs()
    if name == "bce":
        x = torch.sigmoid(d.normal(shape, 3.0)).clamp(1e-3, 0.999)
        x = x.float().double()
        function = lambda v: F.binary_cross_entropy(v["x"], v["t"], v.get("weight"), reduction=REDUCTIONS[reduction])  # noqa: E731
    else:
        function = lambda v: F.binary_cross_entropy_with_logits(  # noqa: E731
            v["x"], v["t"], v.get("weight"), reduction=REDUCTIONS[reduction], pos_weight=v.get("pos_weight"))
    case = Case(name, function, {"x": x}, constants, {"reduction": reduction})
    case.slack = 1e-8 if name == "bce" else 0.0  # PyTorch's second derivative has 1e-12 added to x and 1 - x
    return case


@operation("kl_div")
def kl_div(d, name):
    shape, reduction, log = d.shape(), d.whole(0, 3), d.chance(0.5)
    target = torch.softmax(d.normal(shape), -1).float().double()
    if not log and d.chance(0.3):
        target[..., 0] = 0
    target = torch.log(target).float().double() if log else target
    return Case(name, lambda v: F.kl_div(v["x"], v["t"], reduction=(REDUCTIONS + ["batchmean"])[reduction], log_target=log),
                {"x": torch.log_softmax(d.normal(shape), -1).float().double()}, {"t": target},
                {"reduction": reduction, "log": log})  # fmt: skip


@operation("gaussian_nll_loss")
def gaussian(d, name):
    shape, reduction, full = d.shape(1, 3), d.whole(0, 2), d.chance(0.5)
    eps = d.pick(1e-6, 0.1)
    return Case(name, lambda v: F.gaussian_nll_loss(v["x"], v["t"], v["var"], full, eps, REDUCTIONS[reduction]),
                {"x": d.normal(shape), "var": d.normal(shape).abs()}, {"t": d.normal(shape)},
                {"reduction": reduction, "full": full, "eps": eps})  # fmt: skip


@operation("poisson_nll_loss")
def poisson(d, name):
    shape, reduction, log, full = d.shape(), d.whole(0, 2), d.chance(0.5), d.chance(0.5)
    target = torch.randint(0, 6, shape, generator=d.generator).double()
    x = d.normal(shape) if log else d.normal(shape).abs() + 0.01
    return Case(name, lambda v: F.poisson_nll_loss(v["x"], v["t"], log, full, eps=1e-8, reduction=REDUCTIONS[reduction]),
                {"x": x.float().double()}, {"t": target}, {"reduction": reduction, "log": log, "full": full})  # fmt: skip


@operation("nll_loss", "cross_entropy")
def classes(d, name):
    n, c, rest = d.whole(1, 5), d.whole(2, 9), d.pick([], [], [d.whole(1, 4)], [2, d.whole(1, 3)])
    reduction = d.whole(0, 2)
    target = d.indices([n, *rest], c)
    ignore = -100
    if d.chance(0.3):
        ignore = d.pick(0, -100, c - 1)
        if ignore == -100 and n > 1:
            target[0] = -100
    smoothing = d.pick(0.0, 0.0, 0.1, 0.5) if name == "cross_entropy" else 0.0
    probabilities = name == "cross_entropy" and d.chance(0.4)
    if probabilities:
        target, ignore = torch.softmax(d.normal([n, c, *rest]), 1).float().double(), -100
    constants = {"t": target}
    if d.chance(0.5):
        constants["weight"] = d.normal([c]).abs() + 0.1
        constants["weight"] = constants["weight"].float().double()
    x = d.normal([n, c, *rest], d.pick(1.0, 10.0))
    more = {"label_smoothing": smoothing} if name == "cross_entropy" else {}
    function = getattr(F, name)
    return Case(name, lambda v: function(v["x"], v["t"], v.get("weight"), ignore_index=ignore, reduction=REDUCTIONS[reduction], **more),
                {"x": x}, constants, {"reduction": reduction, "ignore_index": ignore, "smoothing": smoothing})  # fmt: skip


@operation("ctc_loss")
def ctc(d, name):
    t, n, c = d.whole(1, 8), d.whole(1, 3), d.whole(2, 5)
    lengths = [d.whole(0, 4) for _ in range(n)]
    frames = [d.whole(0, t) for _ in range(n)]
    targets = torch.randint(1, c, (n, 4), generator=d.generator)
    reduction, zero = d.whole(0, 2), d.chance(0.5)
    finite = zero or all(
        frames[i] >= lengths[i] + sum(int(targets[i, k] == targets[i, k + 1]) for k in range(lengths[i] - 1)) and frames[i] > 0
        for i in range(n))  # fmt: skip
    # Of logits: PyTorch's gradient by log_probs takes their log_softmax for granted.
    return Case(name, lambda v: F.ctc_loss(torch.log_softmax(v["x"], -1), v["t"], v["frames"], v["lengths"], 0, REDUCTIONS[reduction], zero),
                {"x": d.normal([t, n, c])}, {"t": targets, "frames": torch.tensor(frames), "lengths": torch.tensor(lengths)},
                {"blank": 0, "reduction": reduction, "zero_infinity": zero}, levels=1 if finite else 0)  # fmt: skip


@operation("cosine_embedding_loss")
def cosine_embedding(d, name):
    n, width, margin, reduction = d.whole(1, 6), d.whole(2, 8), d.pick(0.0, 0.3), d.whole(0, 2)
    target = torch.randint(0, 2, [n], generator=d.generator).double() * 2 - 1
    return Case(name, lambda v: F.cosine_embedding_loss(v["a"], v["b"], v["t"], margin, reduction=REDUCTIONS[reduction]),
                {"a": d.normal([n, width]), "b": d.normal([n, width])}, {"t": target},
                {"margin": margin, "reduction": reduction})  # fmt: skip


@operation("triplet_margin_loss")
def triplet(d, name):
    n, width, reduction, swap = d.whole(1, 6), d.whole(2, 8), d.whole(0, 2), d.chance(0.5)
    p, margin = d.pick(2.0, 1.0, 3.0), d.pick(1.0, 0.2)
    inputs = {key: d.normal([n, width]) for key in ("anchor", "positive", "negative")}
    return Case(name, lambda v: F.triplet_margin_loss(v["anchor"], v["positive"], v["negative"], margin, p, 1e-6, swap,
                                                      reduction=REDUCTIONS[reduction]),
                inputs, numbers={"margin": margin, "p": p, "swap": swap, "reduction": reduction})  # fmt: skip
