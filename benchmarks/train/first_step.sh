#!/bin/sh
# From the start of the processes to the end of the first step, default deck on 2 ranks: the best of
# five starts, and exit code 1 unless it is at most one second.
# Usage: first_step.sh CLASSIFY DECK MPIEXEC [FLAGS...]
set -eu
budget_s=1.0
classify=$1
deck=$2
shift 2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

for start in 1 2 3 4 5; do
  "$@" -n 2 "$classify" "$deck" --set "run.dir=\"$folder/$start\"" --set train.epochs=1 \
    --set data.train_limit=1280 --set data.test_limit=1000 --set checkpoint.every_epochs=0 >"$folder/log" 2>&1 ||
    { cat "$folder/log"; exit 1; }
  sed -n 's/.*"first_step_s": \([0-9.e-]*\),/\1/p' "$folder/$start/summary.json"
done | sort -g | awk -v budget=$budget_s '
  { seconds[NR] = $1 }
  END {
    if (NR != 5) { print "FAILED: " NR " figures instead of 5"; exit 1 }
    printf "first step after %.2f s (best), %.2f s (median), %.2f s (worst of 5); at most %.1f s\n",
      seconds[1], seconds[3], seconds[5], budget
    if (!(seconds[1] <= budget)) { print "FAILED: too late"; exit 1 }
  }'
