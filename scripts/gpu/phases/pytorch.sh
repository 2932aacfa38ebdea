#!/usr/bin/env bash
# The same steps by PyTorch, eager first, then compiled, each line as soon as it is known.
# shellcheck source-path=SCRIPTDIR
. "$ROOT/scripts/gpu/phases/common.sh"

cd "$ROOT/benchmarks/pytorch"
if [ "$DEVICE" = cuda ]; then
  steps=(convnet28:f32:128 gpt:bf16:32 resnet1832:bf16:256 resnet18224:bf16:64)
  check kernels timeout --kill-after=2 30 "$PYTHON" -u device_kernels.py cuda 268435456 8192
  check steps "$PYTHON" -u device_step.py cuda 2 "${steps[@]}"
else
  check kernels "$PYTHON" -u device_kernels.py cpu 65536 64
  check steps "$PYTHON" -u device_step.py cpu 0.2 convnet28:f32:16 small_gpt:bf16:2
fi
finish
