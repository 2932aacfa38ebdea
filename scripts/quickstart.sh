#!/usr/bin/env bash
# From a fresh clone to a trained network: installs missing packages, builds, and trains the ConvNet
# of inputs/fashion_mnist.toml for 2 epochs on 2 MPI ranks. A second run only does
# the remaining work.
#   JOBS  parallel compilations (default: the cores this process may use)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

run=runs/quickstart
scripts/setup.sh release build data
# apps/all: the apps and their dependencies; scripts/test.sh builds tests and benchmarks.
cmake --build --preset release --parallel "${JOBS:-$(nproc)}" --target apps/all

cached() { sed -n "s/^$1:[A-Z]*=//p" build/release/CMakeCache.txt; }
completed() { grep -qs '"completed": *true' "$run/summary.json"; }

if completed; then
  echo "quickstart: $run is complete already; remove the folder to train again."
else
  resume=()
  if [ -e "$run" ]; then
    echo "quickstart: $run is unfinished: training continues from its newest checkpoint, or anew if there is none."
    resume=(--resume)
  fi
  mpiexec=$(cached MPIEXEC_EXECUTABLE)
  IFS=';' read -r -a flags <<<"$(cached LOCKSTEP_MPIEXEC_FLAGS)"
  "$mpiexec" "${flags[@]}" -n 2 build/release/apps/classify inputs/fashion_mnist.toml \
    --set train.epochs=2 --set "run.dir=\"$run\"" "${resume[@]}"
  if ! completed; then
    echo "quickstart: the training ended, but $run/summary.json does not say completed." >&2
    exit 1
  fi
fi

shopt -s nullglob
checkpoints=("$run"/checkpoints/*.h5)
echo
echo "Run folder   $run"
if [ -e "$run/curves.svg" ]; then
  echo "Curves       $run/curves.svg"
fi
if [ ${#checkpoints[@]} -gt 0 ]; then
  echo "Checkpoint   ${checkpoints[-1]}"
fi
echo "Next         scripts/test.sh runs every test; README.md says how to train a model of your own."
