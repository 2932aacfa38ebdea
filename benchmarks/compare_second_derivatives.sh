#!/usr/bin/env bash
# Compares docs/examples/heat_residual.cpp with the same training in PyTorch, alternately on one core each. Prints the
# median milliseconds of a step and their ratio.
#   benchmarks/compare_second_derivatives.sh PYTHON [PROGRAM]
# PYTHON   a python with torch (python3 -m venv scratch && scratch/bin/pip install torch)
# PROGRAM  heat_residual; default build/release/docs/examples/heat_residual
# Environment (defaults): ROUNDS (3), STEPS (1000).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${1:?usage: benchmarks/compare_second_derivatives.sh PYTHON [PROGRAM]}
program=${2:-build/release/docs/examples/heat_residual}
rounds=${ROUNDS:-3} steps=${STEPS:-1000}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

mpiexec=$(command -v mpiexec.mpich || command -v mpiexec)
median() { sort -n | awk '{v[NR] = $1} END {print (NR % 2) ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }
time_of_a_step() { sed -n 's/.*, \([0-9.]*\) ms a step$/\1/p'; }

for ((round = 0; round < rounds; ++round)); do
  "$mpiexec" -n 1 "$program" "$steps" | time_of_a_step >>"$scratch/ours"
  "$python" benchmarks/pytorch/heat_residual.py "$steps" | time_of_a_step >>"$scratch/theirs"
done
awk -v a="$(median <"$scratch/ours")" -v b="$(median <"$scratch/theirs")" \
  'BEGIN {printf "Lockstep %.2f ms a step, PyTorch %.2f ms: %.1f times as fast\n", a, b, b / a}'
