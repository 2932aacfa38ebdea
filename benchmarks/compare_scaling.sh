#!/usr/bin/env bash
# What N ranks make of N cores: the default deck (ConvNet, global batch 128) on 1 rank, on N ranks, and as N programs of one
# rank that know nothing of each other, with the N-th part of the batch each: what memory, clock and small batches leave of N
# cores before anybody waits for anybody. In turn; prints medians of the epochs' samples/s and their ratios to 1 rank.
#   benchmarks/compare_scaling.sh [PROGRAM]
# PROGRAM  classify; default build/release/apps/classify
# RANKS (2), ROUNDS (3) and EPOCHS (10) may be set in the environment.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
program=${1:-build/release/apps/classify}
ranks=${RANKS:-2} rounds=${ROUNDS:-3} epochs=${EPOCHS:-10}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

mpiexec=$(command -v mpiexec.mpich || command -v mpiexec)
median() { sort -n "$1" | awk '{v[NR] = $1} END {print (NR % 2) ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }

# NAME BATCH LAUNCHER...: trains; writes each epoch's samples/s to the file NAME, one per line
train() {
  local name=$1 batch=$2 run="$scratch/run.$1" && shift 2
  "$@" "$program" inputs/fashion_mnist.toml --set run.threads=1 --set "run.dir=\"$run\"" --set "train.epochs=$epochs" \
    --set "train.batch_size=$batch" --set log.every_steps=1000000 --set 'log.level="warn"' >"$scratch/log.$name"
  sed -n 's/.*"kind":"epoch".*"samples_per_s":\([0-9.]*\).*/\1/p' "$run/metrics.jsonl" >>"$scratch/$name"
  rm -rf "$run"
}

for ((round = 0; round < rounds; ++round)); do
  train one 128 "$mpiexec" -n 1 -bind-to core
  train together 128 "$mpiexec" -n "$ranks" -bind-to core
  for ((core = 0; core < ranks; ++core)); do
    train "apart.$core" $((128 / ranks)) taskset -c "$core" &
  done
  wait
done
one=$(median "$scratch/one") together=$(median "$scratch/together") apart=0
for ((core = 0; core < ranks; ++core)); do
  apart=$(awk -v a="$apart" -v b="$(median "$scratch/apart.$core")" 'BEGIN {print a + b}')
done
awk -v n="$ranks" -v one="$one" -v together="$together" -v apart="$apart" 'BEGIN {
  printf "1 rank                     %9.0f samples/s\n", one
  printf "%d ranks                    %9.0f samples/s  %.2f times\n", n, together, together / one
  printf "%d programs of 1 rank each  %9.0f samples/s  %.2f times\n", n, apart, apart / one
}'
