"""Writes images.h5: pictures resized by PyTorch's antialiased bilinear interpolation, in float64.
make_images.py [images.h5]
Needs torch, h5py; CPU only.
"""
import sys

import h5py
import torch
import torch.nn.functional as F

# Name: size of the picture, size of the result.
CASES = {"smaller": ((17, 23), (6, 9)), "larger": ((7, 5), (16, 12)), "mixed": ((20, 6), (9, 15)), "as_it_is": ((5, 4), (5, 4))}

random = torch.Generator().manual_seed(40)
with h5py.File(sys.argv[1] if len(sys.argv) > 1 else "images.h5", "w", track_order=True) as file:
    for name, (size, result) in CASES.items():
        pixels = torch.randint(0, 256, (1, 3, *size), generator=random, dtype=torch.uint8)
        out = F.interpolate(pixels.double(), result, mode="bilinear", antialias=True)
        group = file.create_group(f"resize.{name}")
        group["pixels"] = pixels[0].permute(1, 2, 0).contiguous().numpy()  # [H, W, C]
        group["out_f64"] = out[0].numpy()
