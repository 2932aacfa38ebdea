#!/usr/bin/env bash
# run.sh [--short] [--seed N] [--write] [FAULT...]
#
# Injects the faults of docs/reference/reliability.md on the release build and prints the page's
# table: all in a quarter of an hour, --short in a minute. Unexpected outcomes are printed with the
# seed and the try that repeat them:
#   run.sh --seed 7 --try 12 kill
#   --write  puts the table into the page
set -euo pipefail
sources=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export LOCKSTEP_SOURCE_DIR=$sources
export LOCKSTEP_BINARY_DIR=${LOCKSTEP_BINARY_DIR:-$sources/build/release}
export LOCKSTEP_LAUNCHER=${LOCKSTEP_LAUNCHER:-mpiexec -n}
page=$sources/docs/reference/reliability.md

write=no
options=()
for option; do
  if [ "$option" = --write ]; then write=yes; else options+=("$option"); fi
done

program=$LOCKSTEP_BINARY_DIR/tests/reliability/reliability
if [ $write = no ]; then exec "$program" "${options[@]}"; fi
table=$(mktemp)
trap 'rm -f "$table" "$table.page"' EXIT
"$program" "${options[@]}" | tee "$table"
# Between the two marks of the page.
awk -v table="$table" '
  /^<!-- end of the table -->/ { inside = 0 }
  !inside { print }
  /^<!-- table:/ { inside = 1; while ((getline line <table) > 0) print line }' "$page" >"$table.page"
cp "$table.page" "$page"
