"""Times training steps in PyTorch on a GPU, as scripts/gpu/phases/ours.sh times Lockstep's: forward, loss, backward and
optimizer on one fixed random batch. First all models run eagerly, then all compiled by torch.compile.

usage: device_step.py cuda|cpu SECONDS MODEL:PRECISION:BATCH...
       MODEL convnet28, resnet1832, resnet18224 (with the size of images), gpt (GPT-2 of 124 M parameters) or small_gpt
       PRECISION f32, or bf16: under autocast
Prints "speed eager|compile MODEL PRECISION BATCH VALUE UNIT" and the peak memory for each of them.
"""
import sys
import time

import torch
import torch.nn.functional as F

import gpt
import model_step
from convnet import ConvNet

IMAGES = {"convnet28": (ConvNet, (1, 28, 28)), "resnet1832": (model_step.ResNet18, (3, 32, 32)),
          "resnet18224": (model_step.ResNet18, (3, 224, 224))}
TEXTS = {"gpt": (12, 12, 768, 1024, 50304), "small_gpt": (2, 2, 32, 32, 96)}


def image_step(name, batch, device):
    make, sample = IMAGES[name]
    model = make().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.5)
    x, target = torch.randn(batch, *sample, device=device), torch.arange(batch, device=device) % 10
    return model, optimizer, lambda forward: F.nll_loss(forward(x).float(), target), batch, "samples/s"


def text_step(name, batch, device):
    gpt.LAYERS, gpt.HEADS, gpt.WIDTH, gpt.CONTEXT, gpt.TOKENS = TEXTS[name]
    model = gpt.GPT().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    window = torch.randint(gpt.TOKENS, (batch, gpt.CONTEXT + 1), device=device)

    def loss(forward):
        logits = forward(window[:, :-1])
        return F.cross_entropy(logits.view(-1, gpt.TOKENS).float(), window[:, 1:].reshape(-1))

    return model, optimizer, loss, batch * gpt.CONTEXT, "tokens/s"


def measure(mode, device, seconds, text):
    name, precision, batch = text.split(":")
    torch.manual_seed(1)
    make = image_step if name in IMAGES else text_step
    model, optimizer, loss_of, items, unit = make(name, int(batch), device)
    forward = torch.compile(model) if mode == "compile" else model

    def wait():
        if device == "cuda":
            torch.cuda.synchronize()

    def step():
        optimizer.zero_grad()
        with torch.autocast(device, torch.bfloat16, enabled=precision == "bf16"):
            value = loss_of(forward)
        value.backward()
        optimizer.step()

    for _ in range(5):
        step()
    wait()
    rounds, start = [], time.perf_counter()
    while time.perf_counter() - start < seconds or len(rounds) < 3:
        begin = time.perf_counter()
        for _ in range(10):
            step()
        wait()
        rounds.append((time.perf_counter() - begin) / 10)
    name = name.removeprefix("small_")
    print(f"speed {mode} {name} {precision} {batch} {items / sorted(rounds)[len(rounds) // 2]:.1f} {unit}")
    if device == "cuda":
        print(f"memory {mode} {name} {precision} {batch} {torch.cuda.max_memory_allocated() / 2**20:.0f} MiB")
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def main():
    device, seconds, steps = sys.argv[1], float(sys.argv[2]), sys.argv[3:]
    failed = 0
    for mode in ("eager", "compile"):
        for text in steps:
            try:
                measure(mode, device, seconds, text)
            except Exception as error:  # measure the others
                failed += 1
                print(f"{mode} {text}: {type(error).__name__}: {error}", file=sys.stderr)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
