#!/usr/bin/env bash
# scripts/quickstart.sh against stand-ins for setup.sh, cmake and mpiexec: it starts the training with the launcher
# and the flags of CMake's cache, and does not train again what is complete.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{bin,scripts,build/release}
cp "$LOCKSTEP_SOURCE_DIR/scripts/quickstart.sh" "$work/scripts/"

stand_in() {
  printf '#!/bin/sh\n%s\n' "$2" >"$work/$1"
  chmod +x "$work/$1"
}
stand_in scripts/setup.sh :
stand_in bin/cmake :
# shellcheck disable=SC2016  # the stand-in expands it
stand_in bin/mpiexec.some 'echo "$*" >>calls; mkdir -p runs/quickstart; echo "\"completed\": true" >runs/quickstart/summary.json'

# expect FLAGS CALL: with those of CMake's cache, the launcher is called so, and only once.
expect() {
  rm -rf "$work/runs" "$work/calls"
  printf '%s\n' "MPIEXEC_EXECUTABLE:FILEPATH=$work/bin/mpiexec.some" 'MPIEXEC_EXECUTABLE-ADVANCED:INTERNAL=1' \
    "LOCKSTEP_MPIEXEC_FLAGS:INTERNAL=$1" >"$work/build/release/CMakeCache.txt"
  for _ in 1 2; do PATH="$work/bin:$PATH" "$work/scripts/quickstart.sh"; done
  ./expect_exit.sh 0 "^$2 build/release/apps/classify inputs/" cat "$work/calls"
  [ "$(wc -l <"$work/calls")" = 1 ] || { echo "FAILED: a complete run was trained again"; exit 1; }
}
expect '' '-n 2'
expect '--oversubscribe;--allow-run-as-root' '--oversubscribe --allow-run-as-root -n 2'
