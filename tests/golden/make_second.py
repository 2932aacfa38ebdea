"""Writes second.h5: losses that contain gradients, and their gradients, by PyTorch. Form and tolerances as ops.h5's (README.md).
make_second.py [second.h5]
Needs torch, numpy, h5py; CPU only, one thread.
"""
import sys

import h5py
import numpy as np
import torch
import torch.nn.functional as F
from torch.autograd import grad
from torch.nn.attention import SDPBackend, sdpa_kernel


def residual(v):
    """u_t - u_xx of a network u(x, t), and what it is made of."""
    points = torch.cat([v["x"], v["t"]], 1)
    hidden = torch.tanh(F.linear(points, v["w1"], v["b1"]))
    u = F.linear(torch.tanh(F.linear(hidden, v["w2"], v["b2"])), v["w3"])
    u_x, u_t = grad(u.sum(), [v["x"], v["t"]], create_graph=True)
    u_xx, = grad(u_x.sum(), v["x"], create_graph=True)
    return ((u_t - u_xx) ** 2).mean(), {"u_t": u_t, "u_xx": u_xx}


def penalty(v):
    """WGAN-GP's, of a critic with convolutions."""
    h = F.silu(F.conv2d(v["x"], v["w1"], v["b1"], stride=2, padding=1))
    h = F.layer_norm(h.flatten(1), v["gain"].shape, v["gain"], v["shift"])
    score = F.linear(F.leaky_relu(h, 0.2), v["w2"])
    slope, = grad(score.sum(), v["x"], create_graph=True)
    return score.mean() + 10 * ((slope.flatten(1).norm(dim=1) - 1) ** 2).mean(), {"slope": slope}


def inner_steps(v):
    """MAML: a loss after two steps of gradient descent on another."""
    w, b = v["w"], v["b"]
    for _ in range(2):
        inner = F.cross_entropy(F.linear(F.gelu(v["x"]), w, b), v["target"], label_smoothing=0.1)
        gw, gb = grad(inner, [w, b], create_graph=True)
        w, b = w - 0.5 * gw, b - 0.5 * gb
    return F.cross_entropy(F.linear(v["x"], w, b), v["target"]), {"w_inner": w}


def attention(v):
    """A Hessian times a vector, of causal attention with RMS norm, softmax and exp beside it."""
    with sdpa_kernel(SDPBackend.MATH):
        y = F.scaled_dot_product_attention(v["q"], v["k"], v["v"], is_causal=True)
    y = F.rms_norm(y, v["gain"].shape, v["gain"], eps=1e-6)
    loss = (torch.exp(0.3 * y) * F.softmax(y, -1)).sum()
    gq, gk, gv = grad(loss, [v["q"], v["k"], v["v"]], create_graph=True)
    return (gq * v["dq"]).sum() + (gk ** 2).sum() + (gv * gv.detach().cos()).sum(), {}


def third(v):
    """The third derivative of elementwise functions."""
    x = v["x"]
    y = torch.tanh(x) * torch.sigmoid(x) + F.softplus(x) * torch.sin(x) / (2 + torch.cos(x)) + torch.sqrt(1 + x ** 2)
    for _ in range(3):
        y, = grad(y.sum(), x, create_graph=True)
    return (y ** 2).sum(), {"third": y}


def normal(rng, *shape, scale=1.0):
    return (scale * rng.standard_normal(shape)).astype(np.float32)


def cases():
    r = np.random.default_rng(20261123)
    yield residual, {"x": normal(r, 12, 1), "t": normal(r, 12, 1), "w1": normal(r, 16, 2), "b1": normal(r, 16),
                     "w2": normal(r, 16, 16, scale=0.3), "b2": normal(r, 16), "w3": normal(r, 1, 16)}
    yield penalty, {"x": normal(r, 4, 3, 7, 6), "w1": normal(r, 5, 3, 3, 3, scale=0.3), "b1": normal(r, 5),
                    "gain": normal(r, 60), "shift": normal(r, 60), "w2": normal(r, 1, 60, scale=0.3)}
    yield inner_steps, {"x": normal(r, 9, 6), "w": normal(r, 4, 6), "b": normal(r, 4),
                        "target": np.arange(9, dtype=np.int64) % 4}
    yield attention, {"q": normal(r, 2, 2, 5, 4), "k": normal(r, 2, 2, 5, 4), "v": normal(r, 2, 2, 5, 4),
                      "dq": normal(r, 2, 2, 5, 4), "gain": normal(r, 4)}
    yield third, {"x": normal(r, 40)}


def run(function, inputs, dtype):
    v = {k: torch.tensor(a).to(dtype).requires_grad_() if a.dtype == np.float32 else torch.tensor(a)
         for k, a in inputs.items()}
    out, parts = function(v)
    out.backward()
    results = {"out": out, **parts, **{f"grad_{k}": t.grad for k, t in v.items() if t.requires_grad}}
    return {k: t.detach().numpy() for k, t in results.items()}


torch.set_num_threads(1)
with h5py.File(sys.argv[1] if len(sys.argv) > 1 else "second.h5", "w", libver="earliest") as file:
    for function, inputs in cases():
        group = file.create_group(function.__name__)
        group.attrs["op"] = np.bytes_(function.__name__)
        for name, array in inputs.items():
            group.create_dataset(name, data=array)
        exact, single = run(function, inputs, torch.float64), run(function, inputs, torch.float32)
        with torch.backends.mkldnn.flags(enabled=False):
            other = run(function, inputs, torch.float32)
        for name, reference in exact.items():
            data = group.create_dataset(f"{name}_f64", data=reference)
            data.attrs["ref_max_abs"] = np.abs(reference).max()
            data.attrs["f32_max_abs_diff"] = np.float64(np.abs(single[name] - reference).max())
            data.attrs["f32alt_max_abs_diff"] = np.float64(np.abs(other[name] - reference).max())
