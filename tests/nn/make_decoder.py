#!/usr/bin/env python3
"""Made ../golden/decoder.h5 with PyTorch: transformer decoders in float64, forward and backward of
sum(out * grad_out). Groups /<class>.<case>; attributes are the constructor's options; masks are
bytes, 1: not seen."""
import pathlib

import h5py
import numpy as np
import torch
from torch import nn

torch.set_default_dtype(torch.float64)
torch.manual_seed(7)
B, T, S, E, heads = 2, 5, 4, 8, 2
cases = {
    "layer.defaults": ({}, False, False),
    "layer.pre_norm_gelu_causal": ({"norm_first": True, "activation": "gelu"}, True, False),
    "layer.masked": ({"layer_norm_eps": 1e-3}, True, True),
    "decoder.post_norm": ({"num_layers": 2}, True, True),
    "decoder.pre_norm": ({"num_layers": 3, "norm_first": True, "norm": True}, True, True),
}
with h5py.File(pathlib.Path(__file__).parent.parent / "golden" / "decoder.h5", "w") as file:
    for name, (options, causal, masked) in cases.items():
        group = file.create_group(name)
        for key, value in (options | {"causal": causal, "nhead": heads, "dim_feedforward": 12}).items():
            group.attrs[key] = np.bytes_(value) if isinstance(value, str) else value
        keywords = {k: v for k, v in options.items() if k not in ("num_layers", "norm")}
        model = nn.TransformerDecoderLayer(E, heads, 12, dropout=0.0, batch_first=True, **keywords)
        if name.startswith("decoder"):
            model = nn.TransformerDecoder(model, options["num_layers"],
                                          nn.LayerNorm(E) if options.get("norm") else None)
        tgt = torch.randn(B, T, E, requires_grad=True)
        memory = torch.randn(B, S, E, requires_grad=True)
        upstream = torch.randn(B, T, E)
        masks = {}
        if causal:
            masks["tgt_mask"] = nn.Transformer.generate_square_subsequent_mask(T).isneginf()
            masks["tgt_is_causal"] = True
        if masked:
            masks["tgt_key_padding_mask"] = torch.tensor([[0, 0, 0, 0, 0], [0, 0, 0, 1, 1]]).bool()
            masks["memory_key_padding_mask"] = torch.tensor([[0, 1, 0, 1], [0, 0, 0, 0]]).bool()
        with torch.no_grad():  # biases and norms as they begin would hide what is left out
            for parameter in model.parameters():
                parameter.copy_(0.4 * torch.randn_like(parameter))
        out = model(tgt, memory, **masks)
        (out * upstream).sum().backward()
        for key in ("tgt_key_padding_mask", "memory_key_padding_mask"):
            if key in masks:
                group[key] = masks[key].numpy().astype(np.uint8)
        group["tgt"], group["memory"] = tgt.detach().numpy(), memory.detach().numpy()
        group["grad_out"], group["out"] = upstream.numpy(), out.detach().numpy()
        group["grad_tgt"], group["grad_memory"] = tgt.grad.numpy(), memory.grad.numpy()
        for key, parameter in model.named_parameters():
            group[key], group["grad_" + key] = parameter.detach().numpy(), parameter.grad.numpy()
