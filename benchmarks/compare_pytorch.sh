#!/usr/bin/env bash
# The default deck beside PyTorch DDP: the same model, data, batch and optimizer, one core a rank, in turn, so that a
# shared machine's moods hit both. Prints samples/s of training, medians and their ratio.
#   benchmarks/compare_pytorch.sh PYTHON [PROGRAM]
# PYTHON   any python with torch and numpy (python3 -m venv scratch && scratch/bin/pip install torch numpy)
# PROGRAM  classify; default build/release/apps/classify
# ROUNDS (3), EPOCHS (2) and RANKS ("1 2") may be set in the environment.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${1:?usage: benchmarks/compare_pytorch.sh PYTHON [PROGRAM]}
program=${2:-build/release/apps/classify}
rounds=${ROUNDS:-3} epochs=${EPOCHS:-2}
folder=${LOCKSTEP_DATA:-/usr/share/datasets/fashion-mnist}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

mpiexec=$(command -v mpiexec.mpich || command -v mpiexec)
median() { sort -n | awk '{v[NR] = $1} END {print (NR % 2) ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }

# samples/s of each epoch's training, one a line
lockstep() {
  "$mpiexec" -n "$1" -bind-to core "$program" inputs/fashion_mnist.toml --set "train.epochs=$epochs" --set run.threads=1 \
    --set "run.dir=\"$scratch/run\"" --set log.every_steps=1000000 --set 'log.level="warn"' >"$scratch/log"
  sed -n 's/.*"kind":"epoch".*"samples_per_s":\([0-9.]*\).*/\1/p' "$scratch/run/metrics.jsonl"
  rm -rf "$scratch"/run*
}
pytorch() { "$python" benchmarks/pytorch/ddp_convnet.py "$1" "$epochs" "$folder" | sed -n 's/^samples\/s \([0-9]*\).*/\1/p'; }

printf '%5s %22s %22s %7s\n' ranks 'Lockstep samples/s' 'PyTorch samples/s' ratio
for ranks in ${RANKS:-1 2}; do
  for ((round = 0; round < rounds; ++round)); do
    lockstep "$ranks" >>"$scratch/lockstep.$ranks"
    pytorch "$ranks" >>"$scratch/pytorch.$ranks"
  done
  ours=$(median <"$scratch/lockstep.$ranks") theirs=$(median <"$scratch/pytorch.$ranks")
  awk -v n="$ranks" -v a="$ours" -v b="$theirs" 'BEGIN {printf "%5d %22.0f %22.0f %7.2f\n", n, a, b, a / b}'
done
