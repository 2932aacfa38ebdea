#!/usr/bin/env bash
# Tensor parallelism on two cores against one: a training step of a GPT of width 768, 12 heads, beside PyTorch's
# parallelize_module over gloo. The sides run alternately, so that other load on the machine affects all. Prints the best
# round of each in milliseconds, and how many times faster two ranks are than one.
#   benchmarks/compare_tensor_parallel.sh [PYTHON] [PROGRAM]
# PYTHON   a python with torch; without one, or "", Lockstep alone
# PROGRAM  default build/release/benchmarks/parallel/parallel.tensor_bench
# Environment (defaults): ROUNDS (3), STEPS (8), RANKS (2), and those of benchmarks/parallel/tensor_bench.cpp.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${1:-}
program=${2:-build/release/benchmarks/parallel/parallel.tensor_bench}
rounds=${ROUNDS:-3} steps=${STEPS:-8} ranks=${RANKS:-2}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mpiexec=$(command -v mpiexec.mpich || command -v mpiexec)
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

# run SIDE RANKS SEQUENCE
run() {
  if [[ $1 == Lockstep ]]; then
    SEQUENCE=$3 "$mpiexec" -n "$2" -bind-to core "$program" "$steps"
  else
    SEQUENCE=$3 "$python" benchmarks/pytorch/tensor_parallel.py "$2" "$steps" 2>"$scratch/err" || { cat "$scratch/err" >&2; return 1; }
  fi
}
best() { sed 's/.* //' "$1" | sort -g | head -n 1; }

sides=(Lockstep)
[[ -n $python ]] && sides+=(PyTorch)
for ((round = 0; round < rounds; ++round)); do
  for side in "${sides[@]}"; do
    run "$side" 1 0 >>"$scratch/$side.one"
    run "$side" "$ranks" 0 >>"$scratch/$side.replicated"
    run "$side" "$ranks" 1 >>"$scratch/$side.sequence"
  done
done
printf '%-10s %12s %14s %7s %14s %7s\n' "$ranks ranks" '1 rank, ms' 'replicated, ms' times 'sequence, ms' times
for side in "${sides[@]}"; do
  awk -v side="$side" -v one="$(best "$scratch/$side.one")" -v a="$(best "$scratch/$side.replicated")" \
    -v b="$(best "$scratch/$side.sequence")" \
    'BEGIN {printf "%-10s %12.1f %14.1f %7.2f %14.1f %7.2f\n", side, one, a, one / a, b, one / b}'
done
