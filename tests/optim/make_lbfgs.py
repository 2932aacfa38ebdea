#!/usr/bin/env python3
"""Made ../golden/lbfgs.h5 with PyTorch: what torch.optim.LBFGS makes of two losses in float64, call
by call of step(): the loss it returns, the parameters after it and its calls of the closure so far.
Group /<loss>.<case>; attributes are the options."""
import pathlib

import h5py
import numpy as np
import torch

torch.set_default_dtype(torch.float64)
torch.manual_seed(5)


def rosenbrock():
    x = torch.tensor([-1.2, 1.0, -0.7, 1.3, 0.4], requires_grad=True)
    return [x], lambda: (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum(), {}


def network():
    inputs, targets = torch.randn(40, 3), torch.randn(40, 2)
    fc1, fc2 = torch.nn.Linear(3, 8), torch.nn.Linear(8, 2)
    parameters = [fc1.weight, fc1.bias, fc2.weight, fc2.bias]
    return (parameters, lambda: torch.nn.functional.mse_loss(fc2(torch.tanh(fc1(inputs))), targets),
            {"inputs": inputs, "targets": targets})


cases = {
    "defaults": ({}, 6),
    "fixed_step": ({"lr": 0.1, "max_iter": 7, "history_size": 3}, 8),
    "strong_wolfe": ({"line_search_fn": "strong_wolfe"}, 6),
    "strong_wolfe_short": ({"line_search_fn": "strong_wolfe", "lr": 0.5, "max_iter": 4,
                            "max_eval": 6, "history_size": 2, "tolerance_change": 1e-12}, 12),
}
with h5py.File(pathlib.Path(__file__).parent.parent / "golden" / "lbfgs.h5", "w") as file:
    for loss_name, make in {"rosenbrock": rosenbrock, "network": network}.items():
        for case, (options, steps) in cases.items():
            if (loss_name, case) == ("rosenbrock", "defaults"):
                continue  # steps of length 1 without a line search leave for infinity
            if (loss_name, case) == ("rosenbrock", "fixed_step"):
                options = options | {"lr": 0.002}
            parameters, loss_of, data = make()
            group = file.create_group(f"{loss_name}.{case}")
            for name, value in options.items():
                group.attrs[name] = np.bytes_(value) if isinstance(value, str) else value
            for name, value in data.items():
                group[name] = value.numpy()
            for i, parameter in enumerate(parameters):
                group[f"initial_{i}"] = parameter.detach().numpy()
            optimizer = torch.optim.LBFGS(parameters, **options)

            def closure():
                optimizer.zero_grad()
                loss = loss_of()
                loss.backward()
                return loss

            losses, evals, trajectory = [], [], []
            for _ in range(steps):
                losses.append(optimizer.step(closure).item())
                state = optimizer.state[parameters[0]]
                evals.append(state["func_evals"])
                trajectory.append(torch.cat([p.detach().flatten() for p in parameters]).numpy().copy())
            group["losses"], group["func_evals"] = np.array(losses), np.array(evals)
            group["parameters"] = np.array(trajectory)
            print(loss_name, case, losses[0], losses[-1], evals)
