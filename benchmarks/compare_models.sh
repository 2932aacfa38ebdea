#!/usr/bin/env bash
# Compares a training step of each bundled model with PyTorch: the same network, batch and optimizer on one core. The two
# sides run alternately, so that other load on the machine affects both. Prints the median samples/s, their ratio, each
# side's fraction of the core's f32 peak and the growth of each process. Operations are counted from the formulas. The
# ConvNet's fused convolution skips products with zero, so its fraction does not describe the processor's speed.
#   benchmarks/compare_models.sh PYTHON [PROGRAM]
# PYTHON   a python with torch (python3 -m venv scratch && scratch/bin/pip install torch numpy)
# PROGRAM  default build/release/benchmarks/nn/nn.model_step_bench
# Environment (defaults): ROUNDS (3), SECONDS_EACH (2), CORE (0), MODELS ("convnet:128 mlp:128 resnet18:32
# transformer:32", each with its batch size), PRECISION (f32; bf16 applies to both sides).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${1:?usage: benchmarks/compare_models.sh PYTHON [PROGRAM]}
program=${2:-build/release/benchmarks/nn/nn.model_step_bench}
rounds=${ROUNDS:-3} seconds=${SECONDS_EACH:-2} core=${CORE:-0}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

export PRECISION=${PRECISION:-f32}
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
on_core() { taskset -c "$core" "$@"; }
# median of the numbers that follow a word, over all lines of a file
median() {
  sed -n "s|.*$2 \([0-9.e+-]*\).*|\1|p" "$1" | sort -g |
    awk '{v[NR] = $1} END {print (NR % 2) ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'
}

printf '%-12s %5s %12s %12s %6s %9s %9s %9s %9s %7s\n' model batch 'Lockstep/s' 'PyTorch/s' ratio 'of peak' 'of peak' \
  'MiB' 'MiB' ratio
for model_and_batch in ${MODELS:-convnet:128 mlp:128 resnet18:32 transformer:32}; do
  model=${model_and_batch%:*} batch=${model_and_batch#*:}
  ours=$scratch/$model.lockstep theirs=$scratch/$model.pytorch
  for ((round = 0; round < rounds; ++round)); do
    on_core "$program" "$model" "$batch" "$seconds" >>"$ours"
    on_core "$python" benchmarks/pytorch/model_step.py "$model" "$batch" "$seconds" >>"$theirs"
    on_core "$program" peak >>"$scratch/peak"
  done
  if [[ $(median "$ours" parameters) != $(median "$theirs" parameters) ]]; then
    echo "$model: the two sides differ in their numbers of parameters" >&2
    exit 1
  fi
  awk -v model="$model" -v batch="$batch" -v a="$(median "$ours" samples/s)" -v b="$(median "$theirs" samples/s)" \
    -v flop="$(median "$ours" flop)" -v peak="$(sed 's/flops //' "$scratch/peak" | sort -g | tail -n 1)" \
    -v m="$(median "$ours" memory_mib)" -v n="$(median "$theirs" memory_mib)" 'BEGIN {
      printf "%-12s %5d %12.1f %12.1f %6.2f %8.0f%% %8.0f%% %9.1f %9.1f %7.2f\n",
        model, batch, a, b, a / b, 100 * a * flop / peak, 100 * b * flop / peak, m, n, m / n }'
done
