#!/usr/bin/env bash
# Compares forward and backward of each operation with PyTorch, on one core. The two sides run alternately, so that other
# load on the machine affects both. Prints a table: the lowest time of all rounds in microseconds, and PyTorch's time
# divided by Lockstep's (above 1: Lockstep is faster).
#   benchmarks/compare_operations.sh PYTHON [PROGRAM]
# PYTHON   a python with torch (python3 -m venv scratch && scratch/bin/pip install torch numpy)
# PROGRAM  default build/release/benchmarks/autograd/autograd.operations_bench
# Environment (defaults): ROUNDS (3), SECONDS_EACH (0.1), CORE (0).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${1:?usage: benchmarks/compare_operations.sh PYTHON [PROGRAM]}
program=${2:-build/release/benchmarks/autograd/autograd.operations_bench}
rounds=${ROUNDS:-3} seconds=${SECONDS_EACH:-0.1} core=${CORE:-0}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
for ((round = 0; round < rounds; ++round)); do
  taskset -c "$core" "$program" "$seconds" >>"$scratch/ours"
  taskset -c "$core" "$python" benchmarks/pytorch/operations.py "$seconds" >>"$scratch/theirs"
done

echo '| operation | forward us | PyTorch | ratio | backward us | PyTorch | ratio |'
echo '|---|---|---|---|---|---|---|'
awk '
  function least(table, key, value) { if (!(key in table) || value < table[key]) table[key] = value }
  FNR == NR { if (!($1 in f)) order[++n] = $1; least(f, $1, $2); least(b, $1, $3); next }
  { least(g, $1, $2); least(h, $1, $3) }
  END {
    for (i = 1; i <= n; ++i) {
      o = order[i]
      printf "| %s | %.0f | %.0f | %.2f |", o, f[o], g[o], g[o] / f[o]
      if (h[o] > 0) printf " %.0f | %.0f | %.2f |\n", b[o], h[o], h[o] / b[o]; else print " | | |"
    }
  }' "$scratch/ours" "$scratch/theirs"
