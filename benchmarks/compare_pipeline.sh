#!/usr/bin/env bash
# Compares pipelines with torch.distributed.pipelining on Gloo: an MLP of 8 layers of width 1024, 256 rows in 8
# micro-batches, one core a rank. The two sides run alternately, so that other load on the machine affects both. Prints
# each side's best round in samples/s, and Lockstep's divided by PyTorch's.
#   benchmarks/compare_pipeline.sh PYTHON [PROGRAM]
# PYTHON   a python with torch (python3 -m venv scratch && scratch/bin/pip install torch numpy)
# PROGRAM  default build/release/benchmarks/parallel/parallel.pipeline_bench
# Environment (defaults): RANKS (2), SCHEDULES ("gpipe 1f1b interleaved h1"), ROUNDS (3), MPIEXEC (mpiexec).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${1:?usage: benchmarks/compare_pipeline.sh PYTHON [PROGRAM]}
program=${2:-build/release/benchmarks/parallel/parallel.pipeline_bench}
ranks=${RANKS:-2}
read -r -a schedules <<<"${SCHEDULES:-gpipe 1f1b interleaved h1}"
names=(gpipe 1f1b interleaved h1)
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

ours() {
  local kind
  for kind in "${!names[@]}"; do [[ ${names[kind]} != "$1" ]] || break; done
  "${MPIEXEC:-mpiexec}" -n "$ranks" -bind-to core "$program" --benchmark_filter="^mlp/schedule:$kind/" \
    --benchmark_format=json 2>"$scratch/err" >"$scratch/json" || { cat "$scratch/err" >&2; return 1; }
  awk -F '[:,]' '/"samples\/s"/ {print $2 + 0}' "$scratch/json"
}

printf '%-14s %12s %12s %7s\n' "$ranks ranks" Lockstep PyTorch ratio
for schedule in "${schedules[@]}"; do
  best_ours=0 best_theirs=0
  for ((round = 0; round < ${ROUNDS:-3}; ++round)); do
    now=$(ours "$schedule")
    best_ours=$(awk -v a="$best_ours" -v b="$now" 'BEGIN {print (a + 0 > b + 0 ? a : b)}')
    now=$("$python" benchmarks/pytorch/pipeline.py "$ranks" "$schedule" 2)
    best_theirs=$(awk -v a="$best_theirs" -v b="$now" 'BEGIN {print (a + 0 > b + 0 ? a : b)}')
  done
  awk -v name="$schedule" -v a="$best_ours" -v b="$best_theirs" \
    'BEGIN {printf "%-14s %12.0f %12.0f %7.2f\n", name, a, b, a / b}'
done
