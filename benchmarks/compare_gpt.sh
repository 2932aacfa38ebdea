#!/usr/bin/env bash
# Compares a small GPT-2 (10.8 M parameters) with PyTorch, one core a rank: training steps, causal attention over 1024
# positions, and sampling with a key-value cache. The two sides run alternately, so that other load on the machine
# affects both. Prints the best round of each side and their ratio. At the end it compares Lockstep's training with and
# without model.recompute.
#   benchmarks/compare_gpt.sh PYTHON [BUILD]
# PYTHON  a python with torch
# BUILD   default build/release
# Environment (defaults): ROUNDS (3), STEPS (12), SECONDS_EACH (3), RANKS ("1 2"), CORE (0), PRECISION (f32; bf16 applies
# to both sides, except for sampling).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${1:?usage: benchmarks/compare_gpt.sh PYTHON [BUILD]}
build=${2:-build/release}
rounds=${ROUNDS:-3} steps=${STEPS:-12} seconds=${SECONDS_EACH:-3} core=${CORE:-0}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mpiexec=$(command -v mpiexec.mpich || command -v mpiexec)
export PRECISION=${PRECISION:-f32}
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

awk 'BEGIN {srand(1); for (i = 0; i < 400000; ++i) printf "%c", 33 + int(90 * rand())}' >"$scratch/text"
"$build/apps/gpt" tokens "$scratch/text" --output "$scratch/tokens" >"$scratch/log"

# train RANKS [ARGUMENT...]: tokens/s of the median step
train() {
  local ranks=$1
  shift
  "$mpiexec" -n "$ranks" -bind-to core "$build/apps/gpt" train inputs/gpt_bible.toml --set "run.dir=\"$scratch/run\"" \
    --set "data.path=\"$scratch/tokens\"" --set data.context=256 --set data.vocabulary=96 --set data.test_set=false \
    --set model.width=384 --set model.depth=6 --set model.heads=6 --set train.epochs=1 \
    --set "train.batch_size=$((4 * ranks))" --set "data.train_limit=$((4 * ranks * steps))" --set optimizer.clip_norm=0 \
    --set schedule.warmup=2 --set log.every_steps=1 --set 'log.level="warn"' --set run.threads=1 --set "train.precision=\"$PRECISION\"" "$@" >"$scratch/log"
  grep '"kind":"step"' "$scratch/run/metrics.jsonl" | sed 's/.*"tokens_per_s":\([0-9.]*\).*/\1/' | sort -g |
    awk '{v[NR] = $1} END {print "train_tokens_per_s", v[int((NR + 1) / 2)]}'
  rm -rf "$scratch"/run*
}
ours() {
  case $1 in
    train) train "$2" ;;
    recompute) train "$2" --set model.recompute=true | sed 's/^train/recompute/' ;;
    *) taskset -c "$core" "$build/benchmarks/nn/nn.gpt_bench" "$1" "$seconds" ;;
  esac
}
theirs() {
  case $1 in
    recompute) train "$2" ;;
    train) "$python" benchmarks/pytorch/gpt.py train "$2" "$steps" ;;
    *) taskset -c "$core" "$python" benchmarks/pytorch/gpt.py "$1" "$seconds" ;;
  esac
}
# the best line of a file: the lowest milliseconds or the highest tokens/s
best() { sed 's/.* //' "$1" | if [[ $2 == attention ]]; then sort -g; else sort -gr; fi | head -n 1; }

printf '%-22s %12s %12s %7s\n' '' Lockstep PyTorch ratio
for what in $(for n in ${RANKS:-1 2}; do echo "train:$n"; done) attention:1 sample:1 recompute:1; do
  part=${what%:*} ranks=${what#*:}
  for ((round = 0; round < rounds; ++round)); do
    ours "$part" "$ranks" >>"$scratch/$what.ours"
    theirs "$part" "$ranks" >>"$scratch/$what.theirs"
  done
  awk -v what="$(sed 's/ .*//;q' "$scratch/$what.ours")" -v n="$ranks" -v a="$(best "$scratch/$what.ours" "$part")" \
    -v b="$(best "$scratch/$what.theirs" "$part")" \
    'BEGIN {printf "%-20s %d %12.1f %12.1f %7.2f\n", what, n, a, b, what ~ /_ms$/ ? b / a : a / b}'
done
