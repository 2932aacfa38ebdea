#!/usr/bin/env python3
"""Made the files beside this one with PyTorch and Hugging Face's transformers: a small GPT-2 of
random weights as GPT2LMHeadModel.save_pretrained writes it (model.safetensors), once more as on the hub (hub.safetensors: with the masks of
older versions, the tied head spelt out and no prefix), and its logits."""
import json
import pathlib
import shutil
import tempfile

import torch
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel

here = pathlib.Path(__file__).parent
torch.manual_seed(20)
config = GPT2Config(vocab_size=50, n_positions=16, n_embd=24, n_layer=2, n_head=3,
                    resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
model = GPT2LMHeadModel(config).eval()
with torch.no_grad():  # nothing as it begins, so that nothing can be left out unseen
    for parameter in model.parameters():
        parameter.add_(0.2 * torch.randn_like(parameter))
tokens = torch.randint(50, (2, 16))
with torch.no_grad():
    logits = model(tokens).logits
with tempfile.TemporaryDirectory() as folder:
    model.save_pretrained(folder)
    shutil.copy(pathlib.Path(folder) / "model.safetensors", here / "model.safetensors")
    saved = load_file(here / "model.safetensors")
    print(json.dumps({name: list(tensor.shape) for name, tensor in saved.items()}, indent=1))
hub = {name.removeprefix("transformer."): tensor for name, tensor in saved.items()}
for layer in range(config.n_layer):
    hub[f"h.{layer}.attn.bias"] = torch.tril(torch.ones(16, 16, dtype=torch.uint8))[None, None]
    hub[f"h.{layer}.attn.masked_bias"] = torch.tensor(-10000.0)
hub["lm_head.weight"] = hub["wte.weight"].clone()
save_file(hub, here / "hub.safetensors")
save_file({"tokens": tokens, "logits": logits}, here / "reference.safetensors")
